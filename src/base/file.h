/* SPDX-License-Identifier: MIT */
/* Reading and writing whole files, and folders, with messages that name them. */
#ifndef PLM_BASE_FILE_H
#define PLM_BASE_FILE_H

#include "base/host.h"

/*
 * PLM_ERROR_IO, "cannot VERB 'PATH': ..." in the words of errno, which is kept in the record too.
 * For whoever calls the system by itself.
 */
PLM_MUST_USE plm_status plm__file_failed(const char *verb, const char *path);

/* A file mapped for reading. */
typedef struct plm_file {
    const uint8_t *bytes; /* NULL when the file is empty */
    size_t byte_count;
} plm_file;

/*
 * Maps a regular file for reading. PLM_ERROR_IO when it is missing, unreadable or not a regular
 * file. Mapped pages are the page cache's, not this program's.
 *
 * A mapping has no way to fail politely: when another program cuts the file short, or its disk
 * fails, touching the page that is gone ends this program by SIGBUS. So mappings are for files that
 * are read once and let go, which whoever writes them replaces by renaming; what stays open for
 * long, or is written by anyone, is a plm_file_reader's.
 */
PLM_MUST_USE plm_status plm__file_map(const char *path, plm_file *file);

/* Ends the mapping; a zeroed struct is allowed. */
void plm__file_unmap(plm_file *file);

/* A regular file held open, of which pieces are read. */
typedef struct plm_file_reader {
    bool is_open;
    int descriptor;
    size_t byte_count; /* when it was opened */
    char path[256];    /* for messages, perhaps cut */
} plm_file_reader;

/* Opens a file to read pieces of; fails as plm__file_map. */
PLM_MUST_USE plm_status plm__file_open(const char *path, plm_file_reader *reader);

/*
 * Reads `byte_count` bytes from `offset` on, which is thread-safe. PLM_ERROR_IO when the disk fails
 * and when the file has meanwhile become too short for that; `bytes` may then be written in part.
 */
PLM_MUST_USE plm_status plm__file_read_at(const plm_file_reader *reader, size_t offset, void *bytes,
                                          size_t byte_count);

/* Closes it; a zeroed struct is allowed. */
void plm__file_close(plm_file_reader *reader);

/* Reads the start of a small file, as much as `room` holds with a NUL behind it, into `text`.
 * Returns how many bytes: 0 also when it cannot be read. */
size_t plm__file_read_start(const char *path, char *text, size_t room);

/* What one process at a time holds: a file that is locked while it is open. */
typedef struct plm_file_lock {
    bool is_open;
    bool is_held; /* false where the file system has no locks, and nobody is kept out */
    int descriptor;
    char path[4096];
} plm_file_lock;

/*
 * Takes the lock `path`, a file that is made for it and says who holds it. PLM_ERROR_STATE with
 * that in `holder` ("process 4711") when another does; PLM_ERROR_IO when no file can be made there.
 * A process that died holds nothing, whatever it left.
 */
enum { PLM_FILE_HOLDER_TEXT = 32 };
PLM_MUST_USE plm_status plm__file_lock_take(const char *path, char holder[PLM_FILE_HOLDER_TEXT],
                                            plm_file_lock *lock);

/* Gives it back and removes its file; a zeroed struct is allowed. */
void plm__file_lock_give(plm_file_lock *lock);

/* Whether the file is gone. */
bool plm__file_remove(const char *path);

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

/* Creates the temporary. PLM_ERROR_IO, also where `path` is a folder, a device or a pipe: there is
 * nothing to finish or abandon. */
PLM_MUST_USE plm_status plm__file_begin(const char *path, plm_file_writer *writer);

/* Appends. PLM_ERROR_IO: abandon it. */
PLM_MUST_USE plm_status plm__file_append(plm_file_writer *writer, const void *bytes,
                                         size_t byte_count);

/*
 * Makes it the file at `path`. PLM_ERROR_IO leaves `path` as it was, or, when only its folder could
 * not be synced, whole but perhaps not there after the machine stops. The writer is ended either
 * way.
 */
PLM_MUST_USE plm_status plm__file_finish(plm_file_writer *writer);

/* Removes the temporary. */
void plm__file_abandon(plm_file_writer *writer);

/* The three in one: a whole file from memory. */
PLM_MUST_USE plm_status plm__file_write(const char *path, const void *bytes, size_t byte_count);

/* Makes a folder that may be there already. PLM_ERROR_IO. */
PLM_MUST_USE plm_status plm__folder_make(const char *path);

/* Calls `visit` with the name of each entry, in no order. PLM_ERROR_IO: perhaps not with all. */
typedef void plm_folder_visit(const char *name, void *user);
PLM_MUST_USE plm_status plm__folder_each(const char *path, plm_folder_visit *visit, void *user);

#endif
