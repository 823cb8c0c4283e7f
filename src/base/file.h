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
 * Writes a whole file or nothing: into a temporary beside it, synced, then renamed over `path`.
 * PLM_ERROR_IO leaves `path` as it was.
 */
PLM_MUST_USE plm_status plm_file_write(const char *path, const void *bytes, size_t byte_count);

#endif
