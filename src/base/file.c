/* SPDX-License-Identifier: MIT */
/* Files: mapped or read in pieces, renamed into place when written. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file_calls.h"

plm_status plm__file_failed(const char *verb, const char *path)
{
    int error = errno;
    plm_status status = plm_fail(PLM_ERROR_IO, "cannot %s '%s': %s", verb, path, strerror(error));
    plm__fail_system(error);
    return status;
}

static const char *kind_of(const struct stat *about)
{
    return S_ISDIR(about->st_mode) ? "a directory" : "something else";
}

static plm_status measure_open(int descriptor, const char *path, size_t *byte_count)
{
    struct stat about;
    if (plm__file_calls_get()->status(descriptor, &about) != 0)
        return plm__file_failed("read", path);
    PLM_FAIL_IF(!S_ISREG(about.st_mode), PLM_ERROR_IO, "cannot read '%s': wanted a file, found %s",
                path, kind_of(&about));
    *byte_count = (size_t)about.st_size;
    return PLM_OK;
}

/* A pipe that nobody writes to is told as what it is, not waited for. */
static plm_status open_to_read(const char *path, int *descriptor)
{
    *descriptor = plm__file_calls_get()->open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    return *descriptor < 0 ? plm__file_failed("open", path) : PLM_OK;
}

static plm_status map_open(int descriptor, const char *path, plm_file *file)
{
    size_t byte_count;
    PLM_TRY(measure_open(descriptor, path, &byte_count));
    void *bytes = NULL;
    if (byte_count > 0) {
        bytes = plm__file_calls_get()->map(descriptor, byte_count);
        if (bytes == MAP_FAILED)
            return plm__file_failed("map", path);
    }
    *file = (plm_file){.bytes = bytes, .byte_count = byte_count};
    return PLM_OK;
}

plm_status plm__file_map(const char *path, plm_file *file)
{
    int descriptor;
    PLM_TRY(open_to_read(path, &descriptor));
    plm_status status = map_open(descriptor, path, file);
    plm__file_calls_get()->close(descriptor); /* nothing was written: nothing can be lost */
    return status;
}

void plm__file_unmap(plm_file *file)
{
    if (file->bytes)
        munmap((void *)file->bytes, file->byte_count);
    *file = (plm_file){0};
}

plm_status plm__file_open(const char *path, plm_file_reader *reader)
{
    plm_file_reader opened = {.is_open = true};
    PLM_TRY(open_to_read(path, &opened.descriptor));
    plm_status status = measure_open(opened.descriptor, path, &opened.byte_count);
    if (status != PLM_OK) {
        plm__file_calls_get()->close(opened.descriptor);
        return status;
    }
    snprintf(opened.path, sizeof opened.path, "%s", path);
    *reader = opened;
    return PLM_OK;
}

plm_status plm__file_read_at(const plm_file_reader *reader, size_t offset, void *bytes,
                             size_t byte_count)
{
    for (size_t done = 0; done < byte_count;) {
        ssize_t more = plm__file_calls_get()->read_at(reader->descriptor, (char *)bytes + done,
                                                      byte_count - done, (off_t)(offset + done));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return plm__file_failed("read", reader->path);
        PLM_FAIL_IF(more == 0, PLM_ERROR_IO,
                    "'%s' is shorter than it was: wanted the %zu bytes that it had when it was "
                    "opened, found its end at byte %zu",
                    reader->path, reader->byte_count, offset + done);
        done += (size_t)more;
    }
    return PLM_OK;
}

void plm__file_close(plm_file_reader *reader)
{
    if (reader->is_open)
        plm__file_calls_get()->close(reader->descriptor);
    *reader = (plm_file_reader){0};
}

size_t plm__file_read_start(const char *path, char *text, size_t room)
{
    const plm_file_calls *calls = plm__file_calls_get();
    size_t count = 0;
    int descriptor = calls->open(path, O_RDONLY | O_CLOEXEC, 0);
    while (descriptor >= 0 && count < room - 1) {
        ssize_t more = calls->read(descriptor, text + count, room - 1 - count);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            break;
        count += (size_t)more;
    }
    if (descriptor >= 0)
        calls->close(descriptor);
    text[count] = '\0';
    return count;
}

bool plm__file_remove(const char *path)
{
    return plm__file_calls_get()->remove(path) == 0;
}

static plm_status is_taken(const char *path, char holder[PLM_FILE_HOLDER_TEXT])
{
    plm__file_read_start(path, holder, PLM_FILE_HOLDER_TEXT);
    holder[strcspn(holder, "\n")] = '\0';
    return plm_fail(PLM_ERROR_STATE, "'%s' is held by %s", path, holder[0] ? holder : "another");
}

/* Whether the open file has lost its path: whoever gave the lock back removed it. */
static bool is_removed(int descriptor)
{
    struct stat about;
    return plm__file_calls_get()->status(descriptor, &about) == 0 && about.st_nlink == 0;
}

plm_status plm__file_lock_take(const char *path, char holder[PLM_FILE_HOLDER_TEXT],
                               plm_file_lock *lock)
{
    const plm_file_calls *calls = plm__file_calls_get();
    for (;;) {
        int descriptor = calls->open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (descriptor < 0)
            return plm__file_failed("create", path);
        bool held = calls->lock(descriptor) == 0;
        bool taken = !held && errno == EWOULDBLOCK;
        if (taken || is_removed(descriptor)) {
            calls->close(descriptor);
            if (taken)
                return is_taken(path, holder);
            continue;
        }
        snprintf(holder, PLM_FILE_HOLDER_TEXT, "process %ld\n", (long)getpid());
        if (calls->write(descriptor, holder, strlen(holder)) < 0)
            holder[0] = '\0'; /* it is held without saying by whom */
        *lock = (plm_file_lock){.is_open = true, .is_held = held, .descriptor = descriptor};
        snprintf(lock->path, sizeof lock->path, "%s", path);
        return PLM_OK;
    }
}

void plm__file_lock_give(plm_file_lock *lock)
{
    if (!lock->is_open)
        return;
    plm__file_remove(lock->path);
    plm__file_calls_get()->close(lock->descriptor);
    *lock = (plm_file_lock){0};
}

/* A rename puts a file in the place of anything but a folder, /dev/null too: only a file makes
 * room. Looking opens nothing, so it waits for no pipe and asks for no permission. */
static plm_status make_sure_of_room(const char *path)
{
    const plm_file_calls *calls = plm__file_calls_get();
    struct stat about;
    int descriptor = calls->open(path, O_PATH | O_CLOEXEC, 0);
    if (descriptor < 0)
        return errno == ENOENT ? PLM_OK : plm__file_failed("write", path);
    int looked = calls->status(descriptor, &about);
    plm_status status = looked == 0 ? PLM_OK : plm__file_failed("write", path);
    calls->close(descriptor);
    if (status == PLM_OK && !S_ISREG(about.st_mode))
        status = plm_fail(PLM_ERROR_IO, "cannot write '%s': wanted a file or a new name, found %s",
                          path, kind_of(&about));
    return status;
}

plm_status plm__file_begin(const char *path, plm_file_writer *writer)
{
    PLM_FAIL_IF(!*path, PLM_ERROR_IO, "cannot write a file without a name");
    PLM_FAIL_IF(strlen(path) >= sizeof writer->path, PLM_ERROR_IO,
                "cannot write '%.60s...': the path is too long", path);
    snprintf(writer->path, sizeof writer->path, "%s", path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld", writer->path,
             (long)getpid());
    PLM_TRY(make_sure_of_room(path));
    writer->descriptor = plm__file_calls_get()->open(
        writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return writer->descriptor < 0 ? plm__file_failed("create", writer->temporary) : PLM_OK;
}

plm_status plm__file_append(plm_file_writer *writer, const void *bytes, size_t byte_count)
{
    const char *next = bytes;
    while (byte_count > 0) {
        ssize_t written = plm__file_calls_get()->write(writer->descriptor, next, byte_count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return plm__file_failed("write", writer->path);
        next += written;
        byte_count -= (size_t)written;
    }
    return PLM_OK;
}

/* Makes a rename in the file's folder outlast a crash of the machine. */
static plm_status sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + 1 : 1;
    snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
    const plm_file_calls *calls = plm__file_calls_get();
    int descriptor = calls->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (descriptor < 0)
        return plm__file_failed("open the folder of", path);
    plm_status status = PLM_OK;
    if (calls->sync(descriptor) != 0)
        status = plm__file_failed("sync the folder of", path);
    calls->close(descriptor);
    return status;
}

plm_status plm__file_finish(plm_file_writer *writer)
{
    const plm_file_calls *calls = plm__file_calls_get();
    plm_status status = PLM_OK;
    if (calls->sync(writer->descriptor) != 0)
        status = plm__file_failed("sync", writer->path);
    if (calls->close(writer->descriptor) != 0 && status == PLM_OK)
        status = plm__file_failed("close", writer->path);
    if (status == PLM_OK && calls->rename(writer->temporary, writer->path) != 0)
        status = plm__file_failed("rename to", writer->path);
    if (status != PLM_OK) {
        plm__file_remove(writer->temporary);
        return status;
    }
    return sync_folder(writer->path);
}

void plm__file_abandon(plm_file_writer *writer)
{
    plm__file_calls_get()->close(writer->descriptor);
    plm__file_remove(writer->temporary);
}

plm_status plm__file_write(const char *path, const void *bytes, size_t byte_count)
{
    plm_file_writer writer;
    PLM_TRY(plm__file_begin(path, &writer));
    plm_status status = plm__file_append(&writer, bytes, byte_count);
    if (status == PLM_OK)
        return plm__file_finish(&writer);
    plm__file_abandon(&writer);
    return status;
}

plm_status plm__folder_make(const char *path)
{
    bool made = plm__file_calls_get()->make_folder(path, 0777) == 0 || errno == EEXIST;
    return made ? PLM_OK : plm__file_failed("make the folder", path);
}

plm_status plm__folder_each(const char *path, plm_folder_visit *visit, void *user)
{
    const plm_file_calls *calls = plm__file_calls_get();
    DIR *folder = calls->open_folder(path);
    if (!folder)
        return plm__file_failed("read the folder", path);
    plm_status status = PLM_OK;
    for (;;) {
        errno = 0; /* the only way to tell the end from a failure */
        struct dirent *entry = calls->read_folder(folder);
        if (!entry)
            break;
        visit(entry->d_name, user);
    }
    if (errno != 0)
        status = plm__file_failed("read the folder", path);
    closedir(folder);
    return status;
}
