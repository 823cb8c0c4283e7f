/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given to the snapshot reader end in a snapshot or a status. Serves libFuzzer, and
 * run_corpus.c, which gives it the kept inputs in every test run.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/memory.h"
#include "plimsoll/snapshot.h"
#include "torch/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/*
 * What reading may take at once: so much for each plain byte, and when the input is compressed,
 * what its decoder may take. Two bytes of a pickle can be a tuple of two unlike values, which is a
 * list with an array of its own, in an array of lists that grows by doubling: 191 bytes for each
 * (the kept input nested_tuples.pickle). Snapshots of real runs take less than a byte.
 */
enum {
    MEMORY_MULTIPLE = 256,
    MEMORY_BASE_BYTES = 1024 * 1024,
    MEMORY_DECODER_BYTES = PLM_CODEC_XZ_MEMORY_MAX + 16 * 1024 * 1024
};

/* Plain bytes of the input, as far as it can be decoded. */
static size_t count_plain(const uint8_t *bytes, size_t count)
{
    plm_stream stream;
    if (plm__stream_over("input", bytes, count, &stream) != PLM_OK)
        return 0;
    while (plm__stream_fill(&stream, 1) == PLM_OK && plm__stream_left(&stream) > 0)
        stream.next = stream.end;
    size_t plain = (size_t)plm__stream_offset(&stream);
    plm__stream_close(&stream);
    return plain;
}

/* What was read must hold together: every index that it gives out can be followed. */
static void follow(const plm_snapshot *snapshot)
{
    int64_t device_count, event_count, owner_count;
    const plm_snapshot_device *devices = plm_snapshot_devices(snapshot, &device_count);
    for (int64_t d = 0; d < device_count; d++) {
        const plm_event *events = plm_trace_events(devices[d].trace, &event_count);
        plm_trace_owners(devices[d].trace, &owner_count);
        for (int64_t s = 0; s < devices[d].segment_count; s++)
            if (devices[d].segments[s].block + devices[d].segments[s].block_count >
                devices[d].block_count)
                abort();
        for (int64_t i = 0; i < event_count; i++) {
            if (events[i].owner >= owner_count || (i > 0 && events[i].time < events[i - 1].time))
                abort();
            if (events[i].queue >= devices[d].stream_count ||
                events[i].pool >= devices[d].pool_count)
                abort();
        }
        int64_t *live = NULL, live_count;
        if (event_count > 0 &&
            plm_trace_live_at(devices[d].trace, event_count - 1, &live, &live_count) == PLM_OK)
            plm_free(live);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    bool is_coded = plm__codec_find(bytes, count) != NULL;
    size_t plain_bytes = is_coded ? count_plain(bytes, count) : count;
    plm_snapshot *snapshot = NULL;
    plm_fuzz_memory_begin();
    if (plm_snapshot_read_bytes("input", bytes, count, &snapshot) == PLM_OK) {
        follow(snapshot);
        plm_snapshot_destroy(snapshot);
    } else if (snapshot) {
        abort();
    }
    plm_fuzz_memory_end(MEMORY_BASE_BYTES + (is_coded ? MEMORY_DECODER_BYTES : 0), MEMORY_MULTIPLE,
                        plain_bytes);
    return 0;
}
