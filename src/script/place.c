/* SPDX-License-Identifier: MIT */
/* A private folder, and its end. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "script/script.h"

enum { OPEN_FOLDERS = 32 };

plm_status plm__place_create(const char *parent, plm_place *place)
{
    char real[PATH_MAX], path[PLM_PLACE_TEXT];
    const char *wanted = parent && *parent ? parent : "/tmp";
    PLM_FAIL_IF(!realpath(wanted, real), PLM_ERROR_IO,
                "cannot make a private folder in '%.200s': %s; TMPDIR names another", wanted,
                strerror(errno));
    int length = snprintf(path, sizeof path, "%s/plimsoll-XXXXXX", real);
    PLM_FAIL_IF(length < 0 || (size_t)length >= sizeof path, PLM_ERROR_IO,
                "cannot make a private folder in '%.60s...': the path is too long; TMPDIR names "
                "another",
                real);
    /* Lists of paths are written with these between their items. */
    PLM_FAIL_IF(strpbrk(path, ":; \n"), PLM_ERROR_ARGUMENT,
                "wanted a temporary folder without ':', ';' or blanks in its path, found '%.200s'; "
                "TMPDIR names another",
                real);
    if (!mkdtemp(path))
        return plm__file_failed("make a private folder in", real);
    snprintf(place->path, sizeof place->path, "%s", path);
    return PLM_OK;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)walk;
    if (kind == FTW_DNR) /* an overlay's own folder, closed to all: empty */
        (void)chmod(path, S_IRWXU);
    if (kind == FTW_D || kind == FTW_DP || kind == FTW_DNR)
        (void)rmdir(path);
    else
        (void)plm__file_remove(path);
    return 0;
}

void plm__tree_remove(const char *path)
{
    (void)nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

void plm__place_remove(plm_place *place)
{
    if (place->path[0])
        plm__tree_remove(place->path);
    place->path[0] = '\0';
}

plm_status plm__place_path(const plm_place *place, const char *name,
                           char path[PLM_SCRIPT_PATH_TEXT])
{
    int length = snprintf(path, PLM_SCRIPT_PATH_TEXT, "%s/%s", place->path, name);
    PLM_FAIL_IF(length < 0 || length >= PLM_SCRIPT_PATH_TEXT, PLM_ERROR_IO,
                "cannot name '%.60s...' in the private folder: the path is too long", name);
    return PLM_OK;
}
