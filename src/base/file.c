/* SPDX-License-Identifier: MIT */
/* Whole files: mapped to read, renamed into place when written. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static plm_status io_failed(const char *verb, const char *path)
{
    return plm_fail(PLM_ERROR_IO, "cannot %s '%s': %s", verb, path, strerror(errno));
}

static plm_status map_open(int descriptor, const char *path, plm_file *file)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0)
        return io_failed("read", path);
    PLM_FAIL_IF(!S_ISREG(about.st_mode), PLM_ERROR_IO, "cannot read '%s': wanted a file, found %s",
                path, S_ISDIR(about.st_mode) ? "a directory" : "something else");
    size_t byte_count = (size_t)about.st_size;
    void *bytes = NULL;
    if (byte_count > 0) {
        bytes = mmap(NULL, byte_count, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED)
            return io_failed("map", path);
    }
    *file = (plm_file){.bytes = bytes, .byte_count = byte_count};
    return PLM_OK;
}

plm_status plm_file_map(const char *path, plm_file *file)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return io_failed("open", path);
    plm_status status = map_open(descriptor, path, file);
    close(descriptor);
    return status;
}

void plm_file_unmap(plm_file *file)
{
    if (file->bytes)
        munmap((void *)file->bytes, file->byte_count);
    *file = (plm_file){0};
}

plm_status plm_file_begin(const char *path, plm_file_writer *writer)
{
    PLM_FAIL_IF(strlen(path) >= sizeof writer->path, PLM_ERROR_IO,
                "cannot write '%.60s...': the path is too long", path);
    snprintf(writer->path, sizeof writer->path, "%s", path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld", writer->path,
             (long)getpid());
    writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return writer->descriptor < 0 ? io_failed("create", writer->temporary) : PLM_OK;
}

plm_status plm_file_append(plm_file_writer *writer, const void *bytes, size_t byte_count)
{
    const char *next = bytes;
    while (byte_count > 0) {
        ssize_t written = write(writer->descriptor, next, byte_count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_failed("write", writer->path);
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
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return io_failed("open the folder of", path);
    int failed = fsync(descriptor);
    close(descriptor);
    return failed ? io_failed("sync the folder of", path) : PLM_OK;
}

plm_status plm_file_finish(plm_file_writer *writer)
{
    plm_status status = PLM_OK;
    if (fsync(writer->descriptor) != 0)
        status = io_failed("sync", writer->path);
    if (close(writer->descriptor) != 0 && status == PLM_OK)
        status = io_failed("close", writer->path);
    if (status == PLM_OK && rename(writer->temporary, writer->path) != 0)
        status = io_failed("rename to", writer->path);
    if (status != PLM_OK) {
        unlink(writer->temporary);
        return status;
    }
    return sync_folder(writer->path);
}

void plm_file_abandon(plm_file_writer *writer)
{
    close(writer->descriptor);
    unlink(writer->temporary);
}

plm_status plm_file_write(const char *path, const void *bytes, size_t byte_count)
{
    plm_file_writer writer;
    PLM_TRY(plm_file_begin(path, &writer));
    plm_status status = plm_file_append(&writer, bytes, byte_count);
    if (status == PLM_OK)
        return plm_file_finish(&writer);
    plm_file_abandon(&writer);
    return status;
}
