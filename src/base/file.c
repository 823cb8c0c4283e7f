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

static plm_status write_synced(int descriptor, const char *path, const char *bytes,
                               size_t byte_count)
{
    while (byte_count > 0) {
        ssize_t written = write(descriptor, bytes, byte_count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return io_failed("write", path);
        bytes += written;
        byte_count -= (size_t)written;
    }
    return fsync(descriptor) == 0 ? PLM_OK : io_failed("sync", path);
}

plm_status plm_file_write(const char *path, const void *bytes, size_t byte_count)
{
    char temporary[4096];
    int length = snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    PLM_FAIL_IF(length < 0 || (size_t)length >= sizeof temporary, PLM_ERROR_IO,
                "cannot write '%.60s...': the path is too long", path);
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return io_failed("create", temporary);
    plm_status status = write_synced(descriptor, path, bytes, byte_count);
    if (close(descriptor) != 0 && status == PLM_OK)
        status = io_failed("close", path);
    if (status == PLM_OK && rename(temporary, path) != 0)
        status = io_failed("rename to", path);
    if (status != PLM_OK)
        unlink(temporary);
    return status;
}
