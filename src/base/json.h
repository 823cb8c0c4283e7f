/* SPDX-License-Identifier: MIT */
/*
 * JSON, a thin face over jansson, whose functions to allocate by belong to the whole process and so
 * to the program that the library is part of: none are set here. Texts that are handed out are the
 * host allocator's.
 *
 * Writing: a writer keeps the open objects and arrays; the first failure sticks and
 * plm__json_finish says it. `key` is NULL inside an array and for the root. Each byte of a key or
 * of a text that is no well-formed UTF-8 becomes U+FFFD.
 *
 *     plm_json_writer writer = {0};
 *     plm__json_begin_object(&writer, NULL);
 *     plm__json_int(&writer, "peak_bytes", 4096);
 *     char *line = NULL;
 *     PLM_TRY(plm__json_finish(&writer, &line));   (free it with plm__host_free)
 */
#ifndef PLM_BASE_JSON_H
#define PLM_BASE_JSON_H

#include <jansson.h>

#include "base/host.h"

enum { PLM_JSON_DEPTH_MAX = 32 }; /* open objects and arrays */

typedef struct plm_json_writer {
    json_t *root;
    json_t *open[PLM_JSON_DEPTH_MAX];
    int depth;
    bool failed;
} plm_json_writer;

void plm__json_begin_object(plm_json_writer *writer, const char *key);
void plm__json_begin_array(plm_json_writer *writer, const char *key);
void plm__json_end(plm_json_writer *writer);

void plm__json_int(plm_json_writer *writer, const char *key, int64_t value);
void plm__json_bytes(plm_json_writer *writer, const char *key, size_t bytes);
void plm__json_real(plm_json_writer *writer, const char *key,
                    double value); /* null unless finite */
void plm__json_bool(plm_json_writer *writer, const char *key, bool value);
void plm__json_text(plm_json_writer *writer, const char *key, const char *value); /* NULL: null */

/* A value that was read before, borrowed. */
void plm__json_value(plm_json_writer *writer, const char *key, json_t *value);

/*
 * Ends what is open. *line becomes the compact text of the root, NUL-ended, one line, owned by the
 * caller; the writer is emptied either way. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__json_finish(plm_json_writer *writer, char **line);

/* Empties a writer that will not be finished. */
void plm__json_abandon(plm_json_writer *writer);

/* What people write by hand is far smaller: choices, rates. */
enum { PLM_JSON_SMALL_MAX = 1 << 20 };

/*
 * Reading: *root becomes the document, to be given to json_decref. PLM_ERROR_FORMAT names line and
 * column; `what` names the input in messages. Duplicate keys are refused. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__json_read(const char *what, const void *bytes, size_t byte_count,
                                       json_t **root);

/* The same of at most PLM_JSON_SMALL_MAX bytes; PLM_ERROR_FORMAT for more, unread. */
PLM_MUST_USE plm_status plm__json_read_small(const char *what, const void *bytes, size_t byte_count,
                                             json_t **root);

/* What a value is, for a message of one line: numbers and texts of at most 40 bytes stand as they
 * are, of others their kind. NULL is "nothing". */
enum { PLM_JSON_DESCRIPTION_TEXT = 64 };
void plm__json_describe(const json_t *value, char text[PLM_JSON_DESCRIPTION_TEXT]);

/*
 * For tests: lets jansson allocate from the host allocator, so that its blocks are counted and made
 * to fail like others. Before anything else in the process has used jansson, and for good.
 */
void plm__json_count_memory(void);

#endif
