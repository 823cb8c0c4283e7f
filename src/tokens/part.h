/* SPDX-License-Identifier: MIT */
/*
 * Reading one object of a tokenizer.json, with refusals that name the file, the place and what
 * stood there. Texts stay borrowed from the document.
 */
#ifndef PLM_TOKENS_PART_H
#define PLM_TOKENS_PART_H

#include "base/json.h"
#include "tokens/pattern.h"

enum {
    PLM_PART_DEPTH_MAX = 8,  /* sequences in sequences */
    PLM_PART_STEPS_MAX = 64, /* steps that they come to, of one part of the tokenizer */
    PLM_PART_TEXT_MAX = 4096 /* bytes of a text that is put in, taken out or looked for */
};

typedef struct plm_part {
    const char *file;  /* named in messages */
    const char *where; /* "pre_tokenizer" */
    const json_t *object;
    int depth; /* of the sequence that it is a part of */
} plm_part;

/* Sets the record: "FILE: wanted WANTED for WHERE.KEY, found what is there". `key` may be NULL. */
void plm__part_tell(const plm_part *part, const char *key, const char *wanted, const json_t *found);

/* Evaluates to PLM_ERROR_FORMAT, so that the compiler sees which status. */
#define plm__part_refuse(...) (plm__part_tell(__VA_ARGS__), PLM_ERROR_FORMAT)

/* The part under `key` of another: *inner becomes it. PLM_ERROR_FORMAT unless it is an object. */
PLM_MUST_USE plm_status plm__part_of(const char *file, const char *where, const json_t *object,
                                     int depth, plm_part *inner);

/* The value of `type`, borrowed. PLM_ERROR_FORMAT. */
PLM_MUST_USE plm_status plm__part_type(const plm_part *part, const char **type);

/* A text of at most PLM_PART_TEXT_MAX bytes; absent and null are NULL when `is_needed` is false. */
PLM_MUST_USE plm_status plm__part_text(const plm_part *part, const char *key, bool is_needed,
                                       const char **text, int64_t *count);

/* Absent and null leave *value as it is. */
PLM_MUST_USE plm_status plm__part_bool(const plm_part *part, const char *key, bool *value);
PLM_MUST_USE plm_status plm__part_int(const plm_part *part, const char *key, int64_t least,
                                      int64_t most, int64_t *value);

/* An array that must be there. */
PLM_MUST_USE plm_status plm__part_array(const plm_part *part, const char *key,
                                        const json_t **array);

/* A pattern, {"String": "..."} or {"Regex": "..."}, under `key`. */
PLM_MUST_USE plm_status plm__part_pattern(const plm_part *part, const char *key,
                                          plm_pattern *pattern);

/* Calls `read` with each part of a sequence, whose parts stand under `key`. */
typedef plm_status plm_part_reader(const plm_part *part, void *user);
PLM_MUST_USE plm_status plm__part_each(const plm_part *part, const char *key, plm_part_reader *read,
                                       void *user);

#endif
