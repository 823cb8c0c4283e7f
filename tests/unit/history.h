/* SPDX-License-Identifier: MIT */
/*
 * Made-up histories: what a recorder would have written, event by event, so that findings can be
 * asked just under and just over each threshold. Addresses are the caller's; each action takes a
 * microsecond. The state at the end is not written, which a reader allows for.
 *
 *     history h = {.time = 0};
 *     history_segment(&h, 0, 20 * MIB);
 *     history_take(&h, 0, 2 * MIB, 7);      (requested at model.py:7; line 0: no stack)
 *     history_give(&h, 0, 2 * MIB);
 *     found it = history_find(&h, 0);       (and ends the history)
 *     ... it.findings->verdict ...
 *     found_end(it);
 */
#ifndef PLM_TEST_HISTORY_H
#define PLM_TEST_HISTORY_H

#include "unit/torch.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Where address 0 of a history lies. */
#define HISTORY_BASE ((size_t)1 << 40)

typedef struct history {
    plm_text events, notes;
    int time; /* microseconds */
} history;

typedef struct found {
    plm_snapshot *snapshot;
    plm_findings *findings;
} found;

static inline found found_in(plm_snapshot *snapshot, size_t capacity)
{
    found it = {snapshot, NULL};
    assert_ok(find_in(snapshot, (plm_findings_options){.capacity_bytes = capacity}, &it.findings));
    return it;
}

static inline void found_end(found it)
{
    plm_findings_destroy(it.findings);
    plm_snapshot_destroy(it.snapshot);
}

static inline void history_event(history *h, const char *action, size_t address, size_t bytes,
                                 int line)
{
    plm__text_add(&h->events, "%s{\"action\":\"%s\",\"addr\":%zu,\"size\":%zu,\"time_us\":%d",
                  h->events.count ? "," : "", action, HISTORY_BASE + address, bytes, ++h->time);
    if (line > 0)
        plm__text_add(&h->events,
                      ",\"frames\":[{\"name\":\"f\",\"filename\":\"model.py\",\"line\":%d}]", line);
    plm__text_add(&h->events, "}");
}

static inline void history_segment(history *h, size_t address, size_t bytes)
{
    history_event(h, "segment_alloc", address, bytes, 0);
}

static inline void history_take(history *h, size_t address, size_t bytes, int line)
{
    history_event(h, "alloc", address, bytes, line);
}

static inline void history_give(history *h, size_t address, size_t bytes)
{
    history_event(h, "free_completed", address, bytes, 0);
}

/* An event that touches no block. */
static inline void history_pass(history *h)
{
    history_event(h, "something_newer", 0, 0, 0);
}

/* A request that fails while the driver has so much. */
static inline void history_fail(history *h, size_t bytes, size_t device_free)
{
    plm__text_add(&h->events,
                  "%s{\"action\":\"oom\",\"size\":%zu,\"device_free\":%zu,\"time_us\":%d}",
                  h->events.count ? "," : "", bytes, device_free, ++h->time);
}

/* A step of an optimizer, of no events, ends here. */
static inline void history_step(history *h)
{
    static const char *const stages[] = {"START", "END"};
    for (int i = 0; i < 2; i++)
        plm__text_add(&h->notes,
                      "%s{\"name\":\"Optimizer.step#SGD.step\",\"stage\":\"%s\",\"device\":0,"
                      "\"time_us\":%d}",
                      h->notes.count ? "," : "", stages[i], ++h->time);
}

static inline plm_snapshot *history_end(history *h)
{
    plm_text text = {0};
    plm__text_add(&text, "{\"segments\":[],\"device_traces\":[[%s]],\"external_annotations\":[%s]}",
                  h->events.count ? h->events.items : "", h->notes.count ? h->notes.items : "");
    assert_ok(plm__text_status(&text));
    plm_snapshot *snapshot = read_json(text.items);
    plm__text_fini(&text);
    plm__text_fini(&h->events);
    plm__text_fini(&h->notes);
    return snapshot;
}

static inline found history_find(history *h, size_t capacity)
{
    return found_in(history_end(h), capacity);
}

#endif
