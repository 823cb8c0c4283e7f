/* SPDX-License-Identifier: MIT */
/*
 * Setting the recorder up for a command. Python imports a module named sitecustomize at its start
 * when one lies on PYTHONPATH: ours, in a folder of its own beside the files to come, hands over to
 * the recorder. The folder is not a temporary one: the command replaces this process, so nobody
 * would be left to remove it, and the ranks of several machines find it on a shared disk.
 */
#include "plimsoll/record.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "torch/record_internal.h"

static const char sitecustomize[] =
    "import os\n"
    "import plimsoll_record\n"
    "plimsoll_record._start_from_environment(os.path.dirname(os.path.abspath(__file__)))\n";

static const char own_prefix[] = "PLIMSOLL_RECORD_";
static const char path_prefix[] = "PYTHONPATH=";

/* Makes `path`, which is written to on the way, and every folder above it. */
static plm_status make_folders(char *path)
{
    for (char *end = path + 1; *end; end++) {
        if (*end != '/')
            continue;
        *end = '\0';
        plm_status status = plm__folder_make(path);
        *end = '/';
        PLM_TRY(status);
    }
    return plm__folder_make(path);
}

static plm_status write_into(const char *folder, const char *name, const void *bytes, size_t count)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    PLM_FAIL_IF(length < 0 || (size_t)length >= sizeof path, PLM_ERROR_IO,
                "cannot write '%.60s...': the path is too long", folder);
    return plm__file_write(path, bytes, count);
}

/* Makes the folder with the recorder in it; `out` becomes the absolute path of settings->out. */
static plm_status install(const plm_record_settings *settings, char out[PATH_MAX])
{
    PLM_FAIL_IF(!*settings->out, PLM_ERROR_ARGUMENT, "wanted the name of a folder, found nothing");
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s/python", settings->out);
    PLM_FAIL_IF(length < 0 || (size_t)length >= sizeof folder, PLM_ERROR_IO,
                "cannot make '%.60s...': the path is too long", settings->out);
    PLM_TRY(make_folders(folder));
    PLM_TRY(write_into(folder, "plimsoll_record.py", plm__plimsoll_record_py,
                       plm__plimsoll_record_py_bytes));
    PLM_TRY(write_into(folder, "sitecustomize.py", sitecustomize, sizeof sitecustomize - 1));
    return realpath(settings->out, out) ? PLM_OK : plm__file_failed("find", settings->out);
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Our variables, each ended by a NUL; returns how many. */
static int64_t add_variables(const plm_record_settings *settings, const char *out,
                             const char *python_path, plm_text *text)
{
    plm__text_add(text, "%s%s/python%s%s%c", path_prefix, out, *python_path ? ":" : "", python_path,
                  0);
    plm__text_add(text, "%sOUT=%s%c", own_prefix, out, 0);
    plm__text_add(text, "%sENTRIES=%lld%c", own_prefix, (long long)settings->entries, 0);
    plm__text_add(text, "%sSTACKS=%s%c", own_prefix, settings->stacks, 0);
    plm__text_add(text, "%sSIGNAL=%s%c", own_prefix, settings->signal, 0);
    plm__text_add(text, "%sPID=%ld%c", own_prefix, (long)getpid(), 0);
    int64_t count = 6;
    if (settings->at_step) {
        plm__text_add(text, "%sAT_STEP=%lld%c", own_prefix, (long long)settings->at_step, 0);
        count++;
    }
    if (settings->on_exit) {
        plm__text_add(text, "%sON_EXIT=1%c", own_prefix, 0);
        count++;
    }
    return count;
}

/* One block: the pointers, then the bytes of `added`, `added_count` texts. */
static plm_status join(char *const *environment, const plm_text *added, int64_t added_count,
                       char ***prepared)
{
    int64_t old_count = 0;
    while (environment[old_count])
        old_count++;
    size_t pointer_bytes = (size_t)(old_count + added_count + 1) * sizeof(char *);
    char **items = NULL;
    PLM_TRY(plm__host_alloc(pointer_bytes + (size_t)added->count, &items));
    int64_t count = 0;
    for (int64_t i = 0; i < old_count; i++)
        if (!begins(environment[i], own_prefix) && !begins(environment[i], path_prefix))
            items[count++] = environment[i];
    char *bytes = (char *)items + pointer_bytes;
    memcpy(bytes, added->items, (size_t)added->count);
    for (int64_t i = 0; i < added_count; i++) {
        items[count++] = bytes;
        bytes += strlen(bytes) + 1;
    }
    *prepared = items;
    return PLM_OK;
}

plm_status plm_record_prepare(const plm_record_settings *settings, char *const *environment,
                              char ***prepared)
{
    char out[PATH_MAX];
    PLM_TRY(install(settings, out));
    PLM_FAIL_IF(strchr(out, ':'), PLM_ERROR_ARGUMENT,
                "wanted a folder without ':' in its path, which PYTHONPATH cannot name, found '%s'",
                out);
    const char *python_path = "";
    for (char *const *item = environment; *item; item++)
        if (begins(*item, path_prefix))
            python_path = *item + strlen(path_prefix);
    plm_text text = {0};
    int64_t count = add_variables(settings, out, python_path, &text);
    plm_status status = plm__text_status(&text);
    if (status == PLM_OK)
        status = join(environment, &text, count, prepared);
    plm__text_fini(&text);
    return status;
}
