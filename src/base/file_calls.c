/* SPDX-License-Identifier: MIT */
/* The system's file calls, and the same behind a trip wire. */
#include "base/file_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/trip.h"

static const struct {
    const char *text;
    int error; /* errno of a failure that was asked for */
} calls_info[PLM_FILE_CALL_COUNT] = {
#define CALL_ROW(name_, text_, error_) [PLM_FILE_CALL_##name_] = {text_, error_},
    PLM_FILE_CALL_MAP(CALL_ROW)
#undef CALL_ROW
};

const char *plm__file_call_text(plm_file_call call)
{
    return call < PLM_FILE_CALL_COUNT ? calls_info[call].text : "any";
}

/* ---- the system's -------------------------------------------------------------------------- */

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int system_status(int descriptor, struct stat *about)
{
    return fstat(descriptor, about);
}

static void *system_map(int descriptor, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
}

static int system_lock(int descriptor)
{
    return flock(descriptor, LOCK_EX | LOCK_NB);
}

static const plm_file_calls system_calls = {
    .open = system_open,
    .status = system_status,
    .map = system_map,
    .read = read,
    .read_at = pread,
    .write = write,
    .sync = fsync,
    .close = close,
    .rename = rename,
    .make_folder = mkdir,
    .remove = unlink,
    .lock = system_lock,
    .open_folder = opendir,
    .read_folder = readdir,
};

/* ---- behind a trip wire -------------------------------------------------------------------- */

static plm_trip trip;
static _Atomic plm_file_call tripped_kind = PLM_FILE_CALL_ANY;

static bool fails(plm_file_call kind)
{
    plm_file_call wanted = atomic_load(&tripped_kind);
    if ((wanted != PLM_FILE_CALL_ANY && wanted != kind) || !plm__trip_hit(&trip))
        return false;
    errno = calls_info[kind].error;
    return true;
}

static int failing_open(const char *path, int flags, mode_t mode)
{
    return fails(PLM_FILE_CALL_OPEN) ? -1 : system_open(path, flags, mode);
}

static int failing_status(int descriptor, struct stat *about)
{
    return fails(PLM_FILE_CALL_STATUS) ? -1 : system_status(descriptor, about);
}

static void *failing_map(int descriptor, size_t bytes)
{
    return fails(PLM_FILE_CALL_MAP) ? MAP_FAILED : system_map(descriptor, bytes);
}

static ssize_t failing_read(int descriptor, void *bytes, size_t byte_count)
{
    return fails(PLM_FILE_CALL_READ) ? -1 : read(descriptor, bytes, byte_count);
}

static ssize_t failing_read_at(int descriptor, void *bytes, size_t byte_count, off_t offset)
{
    return fails(PLM_FILE_CALL_READ_AT) ? -1 : pread(descriptor, bytes, byte_count, offset);
}

static ssize_t failing_write(int descriptor, const void *bytes, size_t byte_count)
{
    return fails(PLM_FILE_CALL_WRITE) ? -1 : write(descriptor, bytes, byte_count);
}

static int failing_sync(int descriptor)
{
    return fails(PLM_FILE_CALL_SYNC) ? -1 : fsync(descriptor);
}

static int failing_close(int descriptor)
{
    int closed = close(descriptor);
    return fails(PLM_FILE_CALL_CLOSE) ? -1 : closed;
}

static int failing_rename(const char *from, const char *to)
{
    return fails(PLM_FILE_CALL_RENAME) ? -1 : rename(from, to);
}

static int failing_make_folder(const char *path, mode_t mode)
{
    return fails(PLM_FILE_CALL_MAKE_FOLDER) ? -1 : mkdir(path, mode);
}

static int failing_remove(const char *path)
{
    return fails(PLM_FILE_CALL_REMOVE) ? -1 : unlink(path);
}

static int failing_lock(int descriptor)
{
    return fails(PLM_FILE_CALL_LOCK) ? -1 : system_lock(descriptor);
}

static DIR *failing_open_folder(const char *path)
{
    return fails(PLM_FILE_CALL_OPEN_FOLDER) ? NULL : opendir(path);
}

static struct dirent *failing_read_folder(DIR *folder)
{
    return fails(PLM_FILE_CALL_READ_FOLDER) ? NULL : readdir(folder);
}

static const plm_file_calls failing_calls = {
    .open = failing_open,
    .status = failing_status,
    .map = failing_map,
    .read = failing_read,
    .read_at = failing_read_at,
    .write = failing_write,
    .sync = failing_sync,
    .close = failing_close,
    .rename = failing_rename,
    .make_folder = failing_make_folder,
    .remove = failing_remove,
    .lock = failing_lock,
    .open_folder = failing_open_folder,
    .read_folder = failing_read_folder,
};

/* ---- which --------------------------------------------------------------------------------- */

static _Atomic(const plm_file_calls *) in_force = &system_calls;

const plm_file_calls *plm__file_calls_get(void)
{
    return atomic_load(&in_force);
}

bool plm__file_fail_at(plm_file_call kind, int64_t n, bool persistent)
{
    atomic_store(&tripped_kind, kind);
    bool fired = plm__trip_set(&trip, n, persistent);
    atomic_store(&in_force, n == 0 ? &system_calls : &failing_calls);
    return fired;
}
