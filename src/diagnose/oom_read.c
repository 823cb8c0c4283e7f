/* SPDX-License-Identifier: MIT */
/* Out-of-memory messages from a text in memory or from a file of any length. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "diagnose/oom_message.h"

static plm_status finish(const plm_oom_scan *scan, plm_oom_report *report)
{
    PLM_FAIL_IF(scan->report->message_count == 0, PLM_ERROR_FORMAT,
                "found no out-of-memory message in %lld line%s; wanted one of PyTorch's, such as "
                "\"CUDA out of memory. Tried to allocate ...\"",
                (long long)scan->line, scan->line == 1 ? "" : "s");
    *report = *scan->report;
    plm__oom_explain(report);
    return PLM_OK;
}

plm_status plm_oom_read_text(const char *bytes, size_t byte_count, plm_oom_report *report)
{
    plm_oom_scan *scan = NULL;
    plm_oom_report found;
    PLM_TRY(plm__host_alloc(sizeof *scan, &scan));
    plm__oom_scan_begin(scan, &found);
    for (bool last = false; !last;) {
        size_t room;
        char *into = plm__oom_scan_room(scan, &room);
        size_t taken = byte_count < room ? byte_count : room;
        if (taken > 0)
            memcpy(into, bytes, taken);
        bytes += taken;
        byte_count -= taken;
        last = byte_count == 0;
        plm__oom_scan_take(scan, taken, last);
    }
    plm_status status = finish(scan, report);
    plm__host_free(scan);
    return status;
}

static plm_status read_through(int descriptor, const char *path, plm_oom_scan *scan)
{
    for (bool last = false; !last;) {
        size_t room;
        char *into = plm__oom_scan_room(scan, &room);
        ssize_t taken = read(descriptor, into, room);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0)
            return plm__file_failed("read", path);
        last = taken == 0;
        plm__oom_scan_take(scan, (size_t)taken, last);
    }
    return PLM_OK;
}

plm_status plm_oom_read_file(const char *path, plm_oom_report *report)
{
    bool standard = strcmp(path, "-") == 0;
    int descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return plm__file_failed("open", path);
    plm_oom_scan *scan = NULL;
    plm_oom_report found;
    plm_status status = plm__host_alloc(sizeof *scan, &scan);
    if (status == PLM_OK) {
        plm__oom_scan_begin(scan, &found);
        status = read_through(descriptor, standard ? "standard input" : path, scan);
    }
    if (status == PLM_OK)
        status = finish(scan, report);
    plm__host_free(scan);
    if (!standard)
        close(descriptor);
    return status;
}
