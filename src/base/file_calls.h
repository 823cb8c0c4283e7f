/* SPDX-License-Identifier: MIT */
/*
 * The operating system's files as a small table of functions. Everything that the library does to
 * files goes through it, so that a test can let the n-th call fail: there is the system's table and
 * one in front of it that fails. Each function behaves as the system's, errno included.
 */
#ifndef PLM_BASE_FILE_CALLS_H
#define PLM_BASE_FILE_CALLS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* One row a call that can fail: name, text, the errno of a failure that a test asked for. */
#define PLM_FILE_CALL_MAP(ROW)                                                                     \
    ROW(OPEN, "open", EMFILE)                                                                      \
    ROW(STATUS, "status", EIO)                                                                     \
    ROW(MAP, "map", ENOMEM)                                                                        \
    ROW(READ, "read", EIO)                                                                         \
    ROW(READ_AT, "read_at", EIO)                                                                   \
    ROW(WRITE, "write", ENOSPC)                                                                    \
    ROW(SYNC, "sync", EIO)                                                                         \
    ROW(CLOSE, "close", EIO)                                                                       \
    ROW(RENAME, "rename", EIO)                                                                     \
    ROW(MAKE_FOLDER, "make_folder", ENOSPC)                                                        \
    ROW(REMOVE, "remove", EACCES)                                                                  \
    ROW(LOCK, "lock", ENOLCK)                                                                      \
    ROW(OPEN_FOLDER, "open_folder", EMFILE)                                                        \
    ROW(READ_FOLDER, "read_folder", EIO)

typedef enum plm_file_call {
#define PLM_FILE_CALL_ROW(name, text, error) PLM_FILE_CALL_##name,
    PLM_FILE_CALL_MAP(PLM_FILE_CALL_ROW)
#undef PLM_FILE_CALL_ROW
        PLM_FILE_CALL_COUNT,
    PLM_FILE_CALL_ANY = PLM_FILE_CALL_COUNT
} plm_file_call;

/* "open", "sync", ...; static. */
const char *plm__file_call_text(plm_file_call call);

typedef struct plm_file_calls {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*status)(int descriptor, struct stat *about);
    void *(*map)(int descriptor, size_t bytes); /* to read; MAP_FAILED */
    ssize_t (*read)(int descriptor, void *bytes, size_t byte_count);
    ssize_t (*read_at)(int descriptor, void *bytes, size_t byte_count, off_t offset);
    ssize_t (*write)(int descriptor, const void *bytes, size_t byte_count);
    int (*sync)(int descriptor);
    int (*close)(int descriptor); /* the descriptor is gone after a failure too */
    int (*rename)(const char *from, const char *to);
    int (*make_folder)(const char *path, mode_t mode);
    int (*remove)(const char *path);
    int (*lock)(int descriptor); /* EWOULDBLOCK: another holds it; gone when the file is closed */
    DIR *(*open_folder)(const char *path);
    struct dirent *(*read_folder)(DIR *folder); /* NULL: the end, or a failure with errno set */
} plm_file_calls;

/* The table in force. */
const plm_file_calls *plm__file_calls_get(void);

/*
 * For tests: lets the n-th call of this kind from now fail (n = 1 is the next); `persistent` lets
 * every later one fail too. n = 0 switches failing off. Returns whether the last setting had fired.
 */
bool plm__file_fail_at(plm_file_call kind, int64_t n, bool persistent);

#endif
