/* SPDX-License-Identifier: MIT */
/*
 * What a report of many events costs: seconds, host memory and bytes of the file, for the page, for
 * Perfetto and in PyTorch's form. The trace is a real recording told again and again, its blocks
 * made anew each time and freed at the end of a round.
 * usage: bench_report [RECORDING] [EVENTS] [keep PATH]   (keep: leaves the page at PATH)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "plimsoll/export.h"
#include "trace/trace.h"

enum { FRAMES_MAX = 64 };

static void must(plm_status status)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench_report: %s\n", error.message);
    exit(1);
}

static void carry_text(const plm_trace *from, plm_trace *to, uint32_t *text)
{
    must(plm__trace_intern(to, plm_trace_text(from, *text), text));
}

static void carry_owners(const plm_trace *from, plm_trace *to)
{
    int64_t count;
    const plm_owner *owners = plm_trace_owners(from, &count);
    for (int64_t i = 0; i < count; i++) {
        plm_owner owner = owners[i];
        plm_frame frames[FRAMES_MAX];
        int64_t depth = plm_trace_stack_depth(from, owner.frames);
        int32_t index;
        carry_text(from, to, &owner.name);
        carry_text(from, to, &owner.op);
        depth = depth > FRAMES_MAX ? FRAMES_MAX : depth;
        for (int64_t k = 0; k < depth; k++) {
            frames[k] = plm_trace_stack_frame(from, owner.frames, k);
            carry_text(from, to, &frames[k].function);
            carry_text(from, to, &frames[k].file);
        }
        if (depth > 0)
            must(plm__trace_add_stack(to, frames, depth, &owner.frames));
        must(plm__trace_add_owner(to, &owner, &index));
    }
}

/* One telling of the recording from `base` on; what still lives is freed. Returns its last time. */
static int64_t tell_round(const plm_event *events, int64_t count, int64_t blocks, int64_t round,
                          int64_t base, int64_t *live, plm_trace *to)
{
    memset(live, 0, (size_t)blocks * sizeof *live);
    plm_event event = {0};
    for (int64_t i = 0; i < count; i++) {
        event = events[i];
        bool segment =
            event.kind >= PLM_EVENT_SEGMENT_ALLOC && event.kind <= PLM_EVENT_SEGMENT_UNMAP;
        if (segment && round > 0)
            continue;
        event.time = base + events[i].time - events[0].time;
        if (event.block >= 0) {
            live[event.block] = event.kind == PLM_EVENT_BLOCK_ALLOC  ? i + 1
                                : event.kind == PLM_EVENT_BLOCK_FREE ? 0
                                                                     : live[event.block];
            event.block += round * blocks;
        }
        must(plm__trace_add_event(to, &event));
    }
    int64_t last = event.time;
    for (int64_t block = 0; block < blocks; block++) {
        if (live[block] == 0)
            continue;
        event = events[live[block] - 1];
        event.kind = PLM_EVENT_BLOCK_FREE;
        event.time = last;
        event.block += round * blocks;
        must(plm__trace_add_event(to, &event));
    }
    return last;
}

static plm_trace *repeat(const plm_trace *from, int64_t wanted)
{
    plm_trace *to = NULL;
    int64_t count, blocks = 0, told = 0, *live = NULL, time = 0;
    const plm_event *events = plm_trace_events(from, &count);
    for (int64_t i = 0; i < count; i++)
        blocks = events[i].block >= blocks ? events[i].block + 1 : blocks;
    must(plm__host_alloc((size_t)blocks * sizeof *live, &live));
    must(plm__trace_create(&to));
    carry_owners(from, to);
    for (int64_t round = 0; told < wanted; round++) {
        time = tell_round(events, count, blocks, round, time, live, to);
        plm_trace_events(to, &told);
    }
    plm__host_free(live);
    return to;
}

static double resident_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static void tell(const char *what, const char *path, int64_t began, double resident)
{
    struct stat about;
    double seconds = (double)(plm__clock_ns() - began) * 1e-9;
    if (stat(path, &about) != 0)
        exit(1);
    printf("%-10s %7.3f s  %8.2f MB of file  %6.1f MiB more resident\n", what, seconds,
           (double)about.st_size * 1e-6, resident_mib() - resident);
}

int main(int argc, char **argv)
{
    const char *recording =
        argc > 1 ? argv[1] : "tests/data/snapshots/gpt350m_amp_b4_t2048_cap12g.pickle.xz";
    int64_t wanted = argc > 2 ? atoll(argv[2]) : 1000000, count;
    const char *kept = argc > 4 && strcmp(argv[3], "keep") == 0 ? argv[4] : NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/plimsoll-bench-report-%ld", (long)getpid());
    plm_snapshot *snapshot = NULL;
    must(plm_snapshot_read(recording, &snapshot));
    plm_export_source source = {
        .trace = repeat(plm_snapshot_devices(snapshot, &count)->trace, wanted), .timed = true};
    plm_trace_events(source.trace, &count);
    printf("%lld events, %.1f MiB of trace\n", (long long)count,
           (double)plm__host_stats_get().live_bytes / 1048576);
    double resident = resident_mib();
    int64_t began = plm__clock_ns();
    must(plm_export_page(kept ? kept : path, "many events", &source, 1));
    tell("page", kept ? kept : path, began, resident);
    began = plm__clock_ns();
    must(plm_export_perfetto(path, &source, 1));
    tell("perfetto", path, began, resident);
    began = plm__clock_ns();
    must(plm_export_snapshot(path, &source, 1));
    tell("pickle", path, began, resident);
    unlink(path);
    plm_trace_destroy((plm_trace *)source.trace);
    plm_snapshot_destroy(snapshot);
    return 0;
}
