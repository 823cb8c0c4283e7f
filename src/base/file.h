/* SPDX-License-Identifier: MIT */
/* Reading and writing whole files, with messages that name the file. */
#ifndef PLM_BASE_FILE_H
#define PLM_BASE_FILE_H

#include "base/host.h"

/* A file mapped for reading. */
typedef struct plm_file {
    const uint8_t *bytes; /* NULL when the file is empty */
    size_t byte_count;
} plm_file;

/*
 * Maps a regular file for reading. PLM_ERROR_IO when it is missing, unreadable or not a regular
 * file. Mapped pages are the page cache's, not this program's.
 */
PLM_MUST_USE plm_status plm_file_map(const char *path, plm_file *file);

/* Ends the mapping; a zeroed struct is allowed. */
void plm_file_unmap(plm_file *file);

/*
 * A file that comes to be whole or not at all: written into a temporary beside it, synced, then
 * renamed over `path`, and the folder synced too. Between begin and end, exactly one of finish and
 * abandon.
 */
typedef struct plm_file_writer {
    int descriptor;
    char path[4000];
    char temporary[4096];
} plm_file_writer;

/* Creates the temporary. PLM_ERROR_IO: there is nothing to finish or abandon. */
PLM_MUST_USE plm_status plm_file_begin(const char *path, plm_file_writer *writer);

/* Appends. PLM_ERROR_IO: abandon it. */
PLM_MUST_USE plm_status plm_file_append(plm_file_writer *writer, const void *bytes,
                                        size_t byte_count);

/* Makes it the file at `path`. PLM_ERROR_IO leaves `path` as it was; the writer is ended either
 * way. */
PLM_MUST_USE plm_status plm_file_finish(plm_file_writer *writer);

/* Removes the temporary. */
void plm_file_abandon(plm_file_writer *writer);

/* The three in one: a whole file from memory. */
PLM_MUST_USE plm_status plm_file_write(const char *path, const void *bytes, size_t byte_count);

#endif
