/* SPDX-License-Identifier: MIT */
/*
 * A recorder for tests: writes down what a pool does as PyTorch writes a snapshot, in its JSON
 * form, so that a replay can be held to any history, not only to those of the recordings.
 */
#ifndef PLM_TEST_RECORDER_H
#define PLM_TEST_RECORDER_H

#include "base/array.h"
#include "torch/alloc_conf.h"
#include "unit/pool_kit.h"
#include "unit/torch.h"

typedef struct test_recorder {
    plm_space space;
    plm_pool *pool;
    plm_pool_settings settings;
    bool hides_pools; /* events name no pools, as before they were recorded */
    PLM_ARRAY(plm_pool_event) events;
    PLM_ARRAY(plm_pool_block) blocks; /* of the last walk */
} test_recorder;

static inline void recorder_note(void *context, const plm_pool_event *event)
{
    test_recorder *recorder = context;
    assert_ok(PLM_ARRAY_PUSH(&recorder->events, *event));
}

static inline void recorder_see(void *context, const plm_pool_block *block)
{
    test_recorder *recorder = context;
    assert_ok(PLM_ARRAY_PUSH(&recorder->blocks, *block));
}

static inline void recorder_begin(test_recorder *recorder, size_t capacity, const char *settings)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->settings = plm__pool_settings_default();
    assert_ok(plm__torch_settings_parse(settings, &recorder->settings));
    plm__space_init(&recorder->space, capacity);
    assert_ok(plm__pool_create(PLM_POOL_CACHING, &recorder->space.source, &recorder->settings,
                               &recorder->pool));
    plm__pool_listen(recorder->pool, recorder_note, recorder);
}

static inline void recorder_end(test_recorder *recorder)
{
    plm__pool_destroy(recorder->pool);
    plm__space_fini(&recorder->space);
    PLM_ARRAY_FREE(&recorder->events);
    PLM_ARRAY_FREE(&recorder->blocks);
}

static inline void recorder_write_events(const test_recorder *recorder, int64_t first,
                                         plm_text *text)
{
    for (int64_t i = first; i < recorder->events.count; i++) {
        const plm_pool_event *event = &recorder->events.items[i];
        bool failed = event->kind == PLM_EVENT_OUT_OF_MEMORY;
        plm__text_add(text,
                      "%s{\"action\":\"%s\",\"%s\":%llu,\"size\":%zu,\"stream\":%llu,\"time_us\":"
                      "%lld,\"%s\":[0,%u]}",
                      i > first ? "," : "", plm_event_text(event->kind),
                      failed ? "device_free" : "addr",
                      failed ? 0ull : (unsigned long long)event->address, event->bytes,
                      (unsigned long long)event->stream, (long long)i + 1,
                      recorder->hides_pools ? "hidden_pool_id" : "pool_id", event->private_pool);
    }
}

static inline void recorder_write_block(const plm_pool_block *block, bool first, plm_text *text)
{
    static const char *const states[] = {[PLM_POOL_BLOCK_FREE] = "inactive",
                                         [PLM_POOL_BLOCK_LIVE] = "active_allocated",
                                         [PLM_POOL_BLOCK_PENDING] = "active_pending_free"};
    plm__text_add(text, "%s{\"address\":%llu,\"size\":%zu,\"requested_size\":%zu,\"state\":\"%s\"}",
                  first ? "" : ",", (unsigned long long)block->address, block->bytes,
                  block->asked_bytes, states[block->state]);
}

/* Each run of memory without a gap is a segment of the snapshot. */
static inline void recorder_write_segments(test_recorder *recorder, plm_text *text)
{
    recorder->blocks.count = 0;
    assert_ok(plm__pool_walk(recorder->pool, recorder_see, recorder));
    const plm_pool_block *blocks = recorder->blocks.items;
    int64_t count = recorder->blocks.count, written = 0;
    for (int64_t first = 0, end; first < count; first = end) {
        size_t bytes = 0;
        for (end = first; end < count && blocks[end].state != PLM_POOL_BLOCK_UNMAPPED &&
                          blocks[end].segment_address == blocks[first].segment_address;
             end++)
            bytes += blocks[end].bytes;
        if (end == first) {
            end++;
            continue;
        }
        plm__text_add(text,
                      "%s{\"device\":0,\"address\":%llu,\"total_size\":%zu,\"stream\":%llu,"
                      "\"segment_type\":\"%s\",\"segment_pool_id\":[0,%u],\"is_expandable\":%s,"
                      "\"blocks\":[",
                      written++ ? "," : "", (unsigned long long)blocks[first].address, bytes,
                      (unsigned long long)blocks[first].stream,
                      blocks[first].is_small ? "small" : "large", blocks[first].private_pool,
                      blocks[first].is_expandable ? "true" : "false");
        for (int64_t i = first; i < end; i++)
            recorder_write_block(&blocks[i], i == first, text);
        plm__text_add(text, "]}");
    }
}

static inline void recorder_write_settings(const test_recorder *recorder, plm_text *text)
{
    const plm_pool_settings *settings = &recorder->settings;
    plm_text conf = {0};
    plm__torch_settings_print(settings, &conf);
    plm__text_add(text,
                  "{\"PYTORCH_CUDA_ALLOC_CONF\":\"%s\",\"max_split_size\":%lld,"
                  "\"garbage_collection_threshold\":%.3f,\"expandable_segments\":%s,"
                  "\"roundup_power2_divisions\":{",
                  conf.count ? conf.items : "",
                  settings->max_split_bytes == SIZE_MAX ? -1ll
                                                        : (long long)settings->max_split_bytes,
                  settings->garbage_threshold, settings->expandable_segments ? "true" : "false");
    for (int i = 0; i < PLM_POOL_INTERVALS; i++)
        plm__text_add(text, "%s\"%d\":%u", i ? "," : "", 1 << i, settings->divisions[i]);
    plm__text_add(text, "}}");
    plm__text_fini(&conf);
}

/* The snapshot as of now, its first `lost` events overwritten. */
static inline plm_snapshot *recorder_snapshot(test_recorder *recorder, int64_t lost)
{
    plm_text text = {0};
    plm__text_add(&text, "{\"segments\":[");
    recorder_write_segments(recorder, &text);
    plm__text_add(&text, "],\"device_traces\":[[");
    recorder_write_events(recorder, lost, &text);
    plm__text_add(&text, "]],\"allocator_settings\":");
    recorder_write_settings(recorder, &text);
    plm__text_add(&text, "}");
    assert_ok(plm__text_status(&text));
    plm_snapshot *snapshot = read_json(text.items);
    plm__text_fini(&text);
    return snapshot;
}

/* A number in [0, limit) from a fixed stream. */
static inline uint32_t recorder_draw(uint32_t seed, uint64_t *index, uint32_t limit)
{
    return plm__philox_at(seed, 0, 0, (*index)++).word[0] % limit;
}

/* A size of any kind: tiny, small, middling, large. */
static inline size_t recorder_draw_bytes(uint32_t seed, uint64_t *index)
{
    static const size_t most[] = {4 * KIB, MIB, 10 * MIB, 48 * MIB};
    return 1 + recorder_draw(seed, index, (uint32_t)most[recorder_draw(seed, index, 4)]);
}

#endif
