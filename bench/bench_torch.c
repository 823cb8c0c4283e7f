/* SPDX-License-Identifier: MIT */
/*
 * Reading a snapshot of half a gigabyte: rate, memory, and where the time goes.
 *
 * The file is made from a real recording: the entries of its history are written again and again
 * until it is as large as wanted, in a temporary file that is removed. With "keep PATH" the file is
 * written there and left, for comparing with other readers (scripts/compare-pickle PATH).
 * usage: bench_torch [RECORDING] [MEGABYTES] [keep PATH]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "plimsoll/snapshot.h"
#include "torch/pickle.h"
#include "torch/stream.h"

static void stop_if(bool wrong, const char *what)
{
    if (!wrong)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench_torch: %s: %s\n", what, error.message);
    exit(1);
}

static plm_text read_plain(const char *path)
{
    plm_text plain = {0};
    plm_stream stream;
    stop_if(plm__stream_open(path, &stream) != PLM_OK, "cannot open");
    do {
        stop_if(plm__stream_fill(&stream, 1) != PLM_OK, "cannot read");
        plm__text_add_bytes(&plain, (const char *)stream.next, (int64_t)plm__stream_left(&stream));
        stream.next = stream.end;
        stop_if(plm__stream_fill(&stream, 1) != PLM_OK, "cannot read");
    } while (plm__stream_left(&stream) > 0);
    plm__stream_close(&stream);
    return plain;
}

/* The bytes of one opcode with its arguments, as far as protocol 4 of a snapshot has them. */
static int64_t opcode_bytes(const uint8_t *at)
{
    switch (*at) {
    case 0x8c: /* SHORT_BINUNICODE */
    case 0x8a: /* LONG1 */
        return 2 + at[1];
    case 'X': /* BINUNICODE */
        return 5 + (int64_t)(at[1] | at[2] << 8 | at[3] << 16 | (uint32_t)at[4] << 24);
    case 'K':
    case 'h':
    case 'q':
    case 0x80:
        return 2;
    case 'M':
        return 3;
    case 'J':
    case 'j':
    case 'r':
        return 5;
    case 'G':
    case 0x95:
        return 9;
    default:
        return 1;
    }
}

/*
 * Copies without FRAME, whose counts repetition would make wrong; Python reads it all the same.
 * `explicit` writes the slot of every MEMOIZE, so that values put in between do not shift it.
 */
static plm_text copy_pickle(const plm_text *plain, bool explicit)
{
    plm_text copy = {0};
    const uint8_t *bytes = (const uint8_t *)plain->items;
    uint32_t slot = 0;
    for (int64_t at = 0; at < plain->count;) {
        int64_t count = opcode_bytes(bytes + at);
        if (bytes[at] == 0x94 && explicit) {
            const char put[5] = {'r', (char)slot, (char)(slot >> 8), (char)(slot >> 16),
                                 (char)(slot >> 24)};
            plm__text_add_bytes(&copy, put, sizeof put);
        } else if (bytes[at] != 0x95) {
            plm__text_add_bytes(&copy, plain->items + at, count);
        }
        slot += bytes[at] == 0x94;
        at += count;
    }
    stop_if(plm__text_status(&copy) != PLM_OK, "out of memory");
    return copy;
}

/*
 * [*first, *last) becomes the batches "( entries e" of the longest list of the pickle: at each
 * depth, a batch that begins where the one before it ended belongs to the same list.
 */
static void find_batches(const plm_text *plain, int64_t *first, int64_t *last)
{
    enum { DEPTH_MAX = 64 };
    const uint8_t *bytes = (const uint8_t *)plain->items;
    int64_t open[DEPTH_MAX], start[DEPTH_MAX], end[DEPTH_MAX], depth = 0;
    memset(end, -1, sizeof end);
    *first = *last = 0;
    for (int64_t at = 0; at < plain->count; at += opcode_bytes(bytes + at)) {
        if (bytes[at] == '(') {
            stop_if(depth == DEPTH_MAX, "nested too deep");
            open[depth++] = at;
        } else if (depth > 0 && (bytes[at] == 'e' || bytes[at] == 'u' || bytes[at] == 't')) {
            depth--;
            if (bytes[at] != 'e')
                continue;
            if (open[depth] != end[depth])
                start[depth] = open[depth];
            end[depth] = at + 1;
            if (end[depth] - start[depth] > *last - *first) {
                *first = start[depth];
                *last = end[depth];
            }
        }
    }
    stop_if(*last == 0, "the recording has no history");
}

static void write_all(int file, const char *bytes, int64_t count)
{
    while (count > 0) {
        ssize_t written = write(file, bytes, (size_t)count);
        stop_if(written <= 0, "cannot write");
        bytes += written;
        count -= written;
    }
}

/*
 * Writes the recording with its history repeated; returns the bytes of the file. The repetitions
 * refer to the values of the first one, and store their own where nobody looks.
 */
static int64_t write_large(const char *recording, int64_t wanted, int file)
{
    plm_text plain = read_plain(recording);
    plm_text frame = copy_pickle(&plain, true), filling = copy_pickle(&plain, false);
    int64_t end, last, first = 0, filling_first = 0;
    find_batches(&frame, &first, &end);
    find_batches(&filling, &filling_first, &last);
    int64_t repeats = (wanted - frame.count) / (last - filling_first);
    write_all(file, frame.items, end);
    for (int64_t i = 0; i < repeats; i++)
        write_all(file, filling.items + filling_first, last - filling_first);
    write_all(file, frame.items + end, frame.count - end);
    int64_t bytes = frame.count + repeats * (last - filling_first);
    plm__text_fini(&frame);
    plm__text_fini(&filling);
    plm__text_fini(&plain);
    return bytes;
}

/* A line of /proc/self/status, in KiB. */
static long status_kib(const char *key)
{
    long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtol(line + strlen(key) + 1, NULL, 10);
    if (status)
        fclose(status);
    return kib;
}

static void time_reading(const char *path, int64_t bytes)
{
    double best = 0;
    int64_t entries = 0, devices_count;
    for (int i = 0; i < 3; i++) {
        plm_snapshot *snapshot = NULL;
        clock_t processor = clock();
        int64_t start = plm__clock_ns();
        stop_if(plm_snapshot_read(path, &snapshot) != PLM_OK, "cannot read");
        double seconds = (double)(plm__clock_ns() - start) / 1e9;
        const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &devices_count);
        for (int64_t d = 0, sum = 0; d < devices_count; d++)
            entries = sum += devices[d].trace_entries;
        printf("  read %d: %.2f s (%.2f s of processor), %.0f MB/s\n", i + 1, seconds,
               (double)(clock() - processor) / CLOCKS_PER_SEC, (double)bytes / 1e6 / seconds);
        best = best == 0 || seconds < best ? seconds : best;
        plm_snapshot_destroy(snapshot);
    }
    printf("best: %.0f MB/s, %.0f ns an entry (%lld entries)\n", (double)bytes / 1e6 / best,
           best * 1e9 / (double)entries, (long long)entries);
}

int main(int count, char **arguments)
{
    const char *recording =
        count > 1 ? arguments[1] : "tests/data/snapshots/gpt_dynamic_length_60_steps.pickle.xz";
    int64_t wanted = (count > 2 ? atoll(arguments[2]) : 500) * 1000 * 1000;
    bool keep = count > 4 && strcmp(arguments[3], "keep") == 0;
    char temporary[] = "/tmp/bench_torch-XXXXXX";
    const char *path = keep ? arguments[4] : temporary;
    int file = keep ? open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666) : mkstemp(temporary);
    stop_if(file < 0, "cannot create the file");
    int64_t bytes = write_large(recording, wanted, file);
    close(file);
    printf("file: %.1f MB, made from %s\n", (double)bytes / 1e6, recording);
    /* The high water so far is that of making the file: start it anew (5), where /proc allows. */
    int reset = open("/proc/self/clear_refs", O_WRONLY);
    bool anew = reset >= 0 && write(reset, "5", 1) == 1;
    if (reset >= 0)
        close(reset);
    time_reading(path, bytes);
    printf("resident at most: %.1f MB, %.2f of the file%s\n",
           (double)status_kib("VmHWM") / 976.5625,
           (double)status_kib("VmHWM") * 1024 / (double)bytes, anew ? "" : " (with its making)");
    if (!keep)
        unlink(path);
    return 0;
}
