/* SPDX-License-Identifier: MIT */
/*
 * A long recording read, analysed and replayed: best of several, each part by itself. Reading is
 * measured from the file as it is (xz) and from its plain bytes, for decompression is most of it.
 * usage: bench_replay [RECORDING] [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "plimsoll/checklist.h"
#include "torch/stream.h"

#define DEFAULT_RECORDING "tests/data/snapshots/gpt_dynamic_length_60_steps.pickle.xz"

typedef struct times {
    double read, read_plain, find, ask, replay, replay_mapped;
    int64_t events;
} times;

static void stop_if(bool wrong, const char *what)
{
    if (!wrong)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench_replay: %s: %s\n", what, error.message);
    exit(1);
}

static plm_text read_plain(const char *path)
{
    plm_text plain = {0};
    plm_stream stream;
    stop_if(plm__stream_open(path, &stream) != PLM_OK, "cannot open");
    for (;;) {
        stop_if(plm__stream_fill(&stream, 1) != PLM_OK, "cannot read");
        if (plm__stream_left(&stream) == 0)
            break;
        plm__text_add_bytes(&plain, (const char *)stream.next, (int64_t)plm__stream_left(&stream));
        stream.next = stream.end;
    }
    plm__stream_close(&stream);
    stop_if(plm__text_status(&plain) != PLM_OK, "out of memory");
    return plain;
}

static void keep_best(double *best, int64_t start)
{
    double seconds = (double)(plm__clock_ns() - start) * 1e-9;
    if (*best == 0 || seconds < *best)
        *best = seconds;
}

static void measure(const char *path, const plm_text *plain, times *best)
{
    plm_snapshot *snapshot = NULL;
    plm_findings *findings = NULL;
    plm_checklist *list = NULL;
    plm_replay_result result;
    int64_t count, start = plm__clock_ns();
    stop_if(plm_snapshot_read(path, &snapshot) != PLM_OK, "cannot read");
    keep_best(&best->read, start);
    plm_snapshot_destroy(snapshot);
    start = plm__clock_ns();
    stop_if(plm_snapshot_read_bytes(path, plain->items, (size_t)plain->count, &snapshot) != PLM_OK,
            "cannot read");
    keep_best(&best->read_plain, start);
    const plm_snapshot_device *device = plm_snapshot_devices(snapshot, &count);
    best->events = device->trace_entries;
    start = plm__clock_ns();
    stop_if(plm_replay_run(device, &(plm_replay_case){0}, &result) != PLM_OK, "no replay");
    keep_best(&best->replay, start);
    start = plm__clock_ns();
    plm_replay_case mapped = {.policy = PLM_REPLAY_MAPPED};
    stop_if(plm_replay_run(device, &mapped, &result) != PLM_OK, "no replay");
    keep_best(&best->replay_mapped, start);
    start = plm__clock_ns();
    plm_findings_options options = {.replayed = &result};
    stop_if(plm_replay_fill_taken(snapshot, 0, &result) != PLM_OK ||
                plm_findings_create(device, &options, &findings) != PLM_OK,
            "no findings");
    keep_best(&best->find, start);
    start = plm__clock_ns();
    stop_if(plm_checklist_create(findings, &list) != PLM_OK, "no checklist");
    keep_best(&best->ask, start);
    plm_checklist_destroy(list);
    plm_findings_destroy(findings);
    plm_snapshot_destroy(snapshot);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : DEFAULT_RECORDING;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    plm_text plain = read_plain(path);
    times best = {0};
    for (int i = 0; i < rounds; i++)
        measure(path, &plain, &best);
    printf("%lld events, best of %d rounds\n", (long long)best.events, rounds);
    printf("  read, from the file as it is   %7.1f ms\n", best.read * 1e3);
    printf("  read, from %5.1f MB plain      %7.1f ms\n", (double)plain.count / 1e6,
           best.read_plain * 1e3);
    printf("  findings, with their replay    %7.1f ms\n", best.find * 1e3);
    printf("  checklist, with three replays  %7.1f ms\n", best.ask * 1e3);
    printf("  replay as recorded             %7.1f ms\n", best.replay * 1e3);
    printf("  replay, mapped                 %7.1f ms\n", best.replay_mapped * 1e3);
    printf("  file to findings and one more replay  %.1f ms\n",
           (best.read + best.find + best.replay) * 1e3);
    plm__text_fini(&plain);
    return 0;
}
