/* SPDX-License-Identifier: MIT */
/* Answers of the driver, read off the recording. */
#include "replay/driver.h"

#define OWN_ADDRESS ((uint64_t)1 << 60) /* far from addresses that drivers give */

static bool is_release(const plm_event *event)
{
    return event->kind == PLM_EVENT_SEGMENT_FREE || event->kind == PLM_EVENT_SEGMENT_UNMAP;
}

static bool is_taking(const plm_event *event)
{
    return event->kind == PLM_EVENT_SEGMENT_ALLOC || event->kind == PLM_EVENT_SEGMENT_MAP;
}

/* The next event of a segment, NULL when there is none left. */
static const plm_event *peek(plm_recorded_driver *driver)
{
    for (; driver->next < driver->end; driver->next++) {
        const plm_event *event = &driver->events[driver->next];
        if (is_release(event) || is_taking(event))
            return event;
    }
    return NULL;
}

/* The address of the next segment of the state that is taken over. */
static bool take_start(plm_recorded_driver *driver, uint64_t *address)
{
    if (driver->start_next >= driver->start_count)
        return false;
    uint64_t segment = driver->start[driver->start_next].segment_address;
    while (driver->start_next < driver->start_count &&
           driver->start[driver->start_next].segment_address == segment)
        driver->start_next++;
    *address = segment;
    return true;
}

static plm_status driver_reserve(plm_source *source, size_t bytes, uint64_t *address)
{
    plm_recorded_driver *driver = (plm_recorded_driver *)source;
    if (take_start(driver, address))
        return PLM_OK;
    const plm_event *event = peek(driver);
    bool is_recorded = event && (event->kind == PLM_EVENT_SEGMENT_MAP ||
                                 (is_taking(event) && event->bytes_asked == bytes));
    if (is_recorded) {
        *address = event->address;
        return PLM_OK;
    }
    *address = driver->own_address;
    driver->own_address += (bytes + 2 * PLM_POOL_PAGE_BYTES) & ~(PLM_POOL_PAGE_BYTES - 1);
    return PLM_OK;
}

static plm_status driver_commit(plm_source *source, uint64_t address, size_t bytes)
{
    plm_recorded_driver *driver = (plm_recorded_driver *)source;
    (void)address;
    driver->was_asked = true;
    const plm_event *event = peek(driver);
    PLM_FAIL_IF(event ? is_release(event) : driver->refuses, PLM_ERROR_DEVICE_MEMORY,
                "the recorded driver refused %zu bytes", bytes);
    driver->next += event != NULL;
    return PLM_OK;
}

static plm_status driver_decommit(plm_source *source, uint64_t address, size_t bytes)
{
    plm_recorded_driver *driver = (plm_recorded_driver *)source;
    (void)address, (void)bytes;
    const plm_event *event = peek(driver);
    driver->next += event && is_release(event);
    return PLM_OK;
}

static plm_status driver_release(plm_source *source, uint64_t address, size_t bytes)
{
    (void)source, (void)address, (void)bytes;
    return PLM_OK;
}

static plm_status driver_fence(plm_source *source)
{
    (void)source;
    return PLM_OK;
}

static const plm_source_table driver_table = {
    .reserve = driver_reserve,
    .commit = driver_commit,
    .decommit = driver_decommit,
    .release = driver_release,
    .fence = driver_fence,
};

void plm__recorded_driver_init(plm_recorded_driver *driver, const plm_event *events,
                               size_t total_bytes)
{
    *driver = (plm_recorded_driver){
        .source = {&driver_table, .page_bytes = PLM_POOL_PAGE_BYTES, .total_bytes = total_bytes},
        .events = events,
        .own_address = OWN_ADDRESS,
    };
}

void plm__recorded_driver_look(plm_recorded_driver *driver, int64_t first, int64_t end,
                               bool refuses)
{
    driver->next = first;
    driver->end = end;
    driver->refuses = refuses;
    driver->was_asked = false;
}

bool plm__recorded_driver_releases(plm_recorded_driver *driver)
{
    const plm_event *event = peek(driver);
    return event && is_release(event);
}
