/* SPDX-License-Identifier: MIT */
/* The loop of a replay: every recorded request and free, given to a pool. */
#include "replay/replay.h"

#include <string.h>

#include "pool/space.h"
#include "replay/driver.h"
#include "replay/start.h"
#include "trace/trace.h"

#define NO_LIMIT ((size_t)1 << 45) /* more than devices have; pools keep tables of its pages */

enum { CORRECTIONS_MAX = 64 }; /* guesses about the start that a run may prove wrong */

typedef struct replay_run {
    const plm_replay_job *job;
    const plm_snapshot_device *device;
    const plm_event *events;
    int64_t count;
    const plm_owner *owners;
    plm_start start;
    plm_recorded_driver driver;
    plm_space space;
    uint64_t places_taken, hole_bytes; /* by choose_place */
    plm_pool *pool;
    plm_pool_stats *stats;
    uint64_t *addresses;    /* by block: where it lives in the pool, 0: nowhere */
    int64_t *pending_since; /* by block: waits of the pool when it became pending + 1, else 0 */
    int64_t pending_count;  /* of them that are not 0 */
    int64_t block_count;
    int64_t window; /* the first event after the last request or free */
    size_t *sizes;  /* by block: bytes of blocks held at the start, as an earlier run proved */
    int corrections;
    bool is_wrong; /* a guess was proved wrong: the run is void */
    plm_replay_result *result;
} replay_run;

/* ---- requests and frees ---- */

static bool is_left_out(const replay_run *run, const plm_event *event)
{
    return run->job->without_site != 0 && event->owner != PLM_TRACE_NO_OWNER &&
           run->owners[event->owner].op == run->job->without_site;
}

/* Asks the pool for what an event asked for. PLM_ERROR_DEVICE_MEMORY when the pool has none. */
static plm_status ask(replay_run *run, const plm_event *event, plm_pool_grant *grant)
{
    plm_pool_request request = {
        .bytes = event->bytes_asked,
        .stream = run->device->streams[event->queue],
        .private_pool = plm__start_pool(&run->start, run->device, event),
    };
    return plm__pool_alloc(run->pool, &request, grant);
}

/*
 * Asks with the recorded answers of the driver, events [window, i). When a cached block serves the
 * request though memory was given back before it, the program had emptied the cache itself: the
 * block goes back as if nothing had been, and the cache is emptied first.
 */
static plm_status ask_as_recorded(replay_run *run, int64_t i, bool fails, plm_pool_grant *grant)
{
    plm_recorded_driver *driver = &run->driver;
    plm_pool_stats before = *run->stats;
    plm__recorded_driver_look(driver, run->window, i, fails);
    PLM_TRY(ask(run, &run->events[i], grant));
    if (driver->was_asked || !plm__recorded_driver_releases(driver))
        return PLM_OK;
    PLM_TRY(plm__pool_free(run->pool, grant->address, NULL));
    *run->stats = before;
    PLM_TRY(plm__pool_empty_cache(run->pool));
    return ask(run, &run->events[i], grant);
}

static plm_status ask_at(replay_run *run, int64_t i, bool fails, plm_pool_grant *grant)
{
    return run->job->as_recorded ? ask_as_recorded(run, i, fails, grant)
                                 : ask(run, &run->events[i], grant);
}

/*
 * A request was served from another place than recorded. When that is a free block behind a held
 * block of unsure size, it must be smaller than the request: the held block takes more.
 */
static plm_status correct_guess(replay_run *run, const plm_event *event, plm_pool_grant grant)
{
    size_t rounded = plm__pool_round_bytes(&run->job->settings, event->bytes_asked);
    for (int64_t i = 0; i + 1 < run->start.blocks.count; i++) {
        const plm_pool_block *block = &run->start.blocks.items[i], *behind = block + 1;
        if (behind->address != grant.address || behind->state != PLM_POOL_BLOCK_FREE ||
            behind->segment_address != block->segment_address || behind->bytes < rounded)
            continue;
        for (int64_t k = 0; k < run->start.held.count; k++) {
            int64_t number = run->start.held.items[k].block;
            if (run->start.held.items[k].address != block->address || !run->start.unsure[number] ||
                run->addresses[number] == 0)
                continue;
            if (!run->sizes)
                PLM_TRY(
                    plm__host_alloc((size_t)run->block_count * sizeof *run->sizes, &run->sizes));
            run->sizes[number] = block->bytes + (behind->bytes - rounded) + PLM_POOL_BLOCK_BYTES;
            run->is_wrong = true;
        }
    }
    return PLM_OK;
}

static plm_status replay_alloc(replay_run *run, int64_t i)
{
    const plm_event *event = &run->events[i];
    plm_pool_grant grant;
    if (event->bytes_asked == 0 || is_left_out(run, event))
        return PLM_OK;
    plm_status status = ask_at(run, i, false, &grant);
    run->result->addresses_total++;
    if (status == PLM_ERROR_DEVICE_MEMORY) {
        run->result->oom++;
        return PLM_OK;
    }
    PLM_TRY(status);
    if (grant.address != event->address && run->job->as_recorded &&
        run->corrections < CORRECTIONS_MAX)
        PLM_TRY(correct_guess(run, event, grant));
    run->addresses[event->block] = grant.address;
    run->result->addresses_reproduced += grant.address == event->address;
    if (run->job->taken)
        run->job->taken[event->block] = grant.bytes;
    return PLM_OK;
}

/* The request that failed in the recording. Where it succeeds now, its block was never used. */
static plm_status replay_failure(replay_run *run, int64_t i)
{
    plm_pool_grant grant;
    if (is_left_out(run, &run->events[i]))
        return PLM_OK;
    plm_status status = ask_at(run, i, true, &grant);
    if (status == PLM_OK)
        return plm__pool_free(run->pool, grant.address, NULL);
    if (status != PLM_ERROR_DEVICE_MEMORY)
        return status;
    run->result->oom++;
    if (!run->job->failed)
        return PLM_OK;
    plm_replay_moment moment = {run->pool, i, run->addresses, run->block_count};
    return run->job->failed(run->job->context, &moment);
}

/* The owner lets go; the block stays pending when the recording shows that it did. */
static plm_status let_go(replay_run *run, const plm_event *event, bool stays_pending)
{
    uint64_t address = run->addresses[event->block];
    if (address == 0 || run->pending_since[event->block] != 0)
        return PLM_OK;
    if (stays_pending) {
        uint64_t other = run->device->streams[event->queue] + 1;
        PLM_TRY(plm__pool_record_stream(run->pool, address, other));
        run->pending_count++;
        run->pending_since[event->block] = run->stats->num_sync_all_streams + 1;
    } else {
        run->addresses[event->block] = 0;
    }
    return plm__pool_free(run->pool, address, NULL);
}

static plm_status replay_request_to_free(replay_run *run, int64_t i)
{
    const plm_event *next = i + 1 < run->count ? &run->events[i + 1] : NULL;
    bool is_completed =
        next && next->kind == PLM_EVENT_BLOCK_FREE && next->block == run->events[i].block;
    return let_go(run, &run->events[i], !is_completed);
}

/* The end of the pending state of a block; `completes` when it is this that ends it in the pool. */
static plm_status end_pending(replay_run *run, int64_t block, bool completes)
{
    uint64_t address = run->addresses[block];
    completes &= run->pending_since[block] == run->stats->num_sync_all_streams + 1;
    run->addresses[block] = 0;
    run->pending_since[block] = 0;
    run->pending_count--;
    return completes ? plm__pool_complete(run->pool, address) : PLM_OK;
}

static bool is_release(const plm_event *event)
{
    return event->kind == PLM_EVENT_SEGMENT_FREE || event->kind == PLM_EVENT_SEGMENT_UNMAP;
}

/*
 * A request that finds no memory waits for all streams before it gives the cache back, and does not
 * search the cache again. Completions that end every pending block, right before releases or a
 * failure, belong to such a wait, which the pool will make by itself; *end is behind them.
 */
static bool is_wait_of_request(const replay_run *run, int64_t first, int64_t *end)
{
    int64_t i = first;
    while (i < run->count && run->events[i].kind == PLM_EVENT_BLOCK_FREE &&
           run->pending_since[run->events[i].block] != 0)
        i++;
    *end = i;
    return i - first == run->pending_count && i < run->count &&
           (is_release(&run->events[i]) || run->events[i].kind == PLM_EVENT_OUT_OF_MEMORY);
}

/* Frees that complete: of pending blocks, or of blocks whose free was asked for at once. */
static plm_status replay_free(replay_run *run, int64_t *i)
{
    int64_t end;
    if (run->pending_since[run->events[*i].block] == 0)
        return let_go(run, &run->events[*i], false);
    if (!run->job->as_recorded || !is_wait_of_request(run, *i, &end))
        return end_pending(run, run->events[*i].block, true);
    for (; *i < end; ++*i)
        PLM_TRY(end_pending(run, run->events[*i].block, false));
    --*i;
    return PLM_OK;
}

/* ---- the cache emptied by the program ---- */

static bool is_part_of_request(const plm_event *event)
{
    return event->kind == PLM_EVENT_SEGMENT_ALLOC || event->kind == PLM_EVENT_SEGMENT_MAP ||
           event->kind == PLM_EVENT_OUT_OF_MEMORY;
}

/*
 * Whether the releases [first, end) can be steps of a request that found no memory, on its way to a
 * segment or to its failure: they then carry its call stack. It may release twice, with a wait for
 * streams between.
 */
static bool may_be_of_request(const replay_run *run, int64_t first, int64_t end)
{
    int64_t next = end;
    while (next < run->count &&
           (is_release(&run->events[next]) || run->events[next].kind == PLM_EVENT_BLOCK_FREE))
        next++;
    if (next == run->count || !is_part_of_request(&run->events[next]))
        return false;
    int32_t owner = run->events[first].owner, other = run->events[next].owner;
    return owner == other || owner == PLM_TRACE_NO_OWNER || other == PLM_TRACE_NO_OWNER;
}

/* A run of releases begins at event *i: a request makes them by itself, or the program asked. */
static plm_status replay_releases(replay_run *run, int64_t *i)
{
    int64_t first = *i, end = first;
    for (; end < run->count && is_release(&run->events[end]); end++)
        if (run->events[end].pool != 0) /* only of a pool that nobody allocates from any more */
            plm__pool_release_private(run->pool, run->events[end].pool);
    *i = end - 1;
    if (may_be_of_request(run, first, end))
        return PLM_OK;
    plm__recorded_driver_look(&run->driver, first, end, false);
    PLM_TRY(plm__pool_empty_cache(run->pool));
    run->window = end;
    return PLM_OK;
}

static plm_status replay_events(replay_run *run)
{
    run->window = run->device->carried_in;
    for (int64_t i = run->device->carried_in; i < run->count && !run->is_wrong; i++) {
        switch (run->events[i].kind) {
        case PLM_EVENT_BLOCK_ALLOC:
            PLM_TRY(replay_alloc(run, i));
            break;
        case PLM_EVENT_OUT_OF_MEMORY:
            PLM_TRY(replay_failure(run, i));
            break;
        case PLM_EVENT_BLOCK_FREE_REQUESTED:
            PLM_TRY(replay_request_to_free(run, i));
            break;
        case PLM_EVENT_BLOCK_FREE: /* may stand inside a request, which waits for streams */
            PLM_TRY(replay_free(run, &i));
            continue;
        case PLM_EVENT_SEGMENT_FREE:
        case PLM_EVENT_SEGMENT_UNMAP:
            PLM_TRY(replay_releases(run, &i));
            continue;
        default:
            continue;
        }
        run->window = i + 1;
    }
    return PLM_OK;
}

/* ---- the state at the start ---- */

/* The pool takes over the recorded state. Blocks of it that are in use are the held ones. */
static plm_status adopt_start(replay_run *run)
{
    const plm_start *start = &run->start;
    run->driver.start = start->blocks.items;
    run->driver.start_count = start->blocks.count;
    PLM_TRY(plm__pool_adopt(run->pool, start->blocks.items, start->blocks.count));
    for (int64_t i = 0, held = 0; i < start->blocks.count; i++) {
        const plm_pool_block *block = &start->blocks.items[i];
        if (block->state != PLM_POOL_BLOCK_LIVE && block->state != PLM_POOL_BLOCK_PENDING)
            continue;
        while (held < start->held.count && start->held.items[held].address != block->address)
            held++;
        if (held == start->held.count)
            break;
        int64_t number = start->held.items[held].block;
        run->addresses[number] = block->address;
        if (block->state == PLM_POOL_BLOCK_PENDING)
            run->pending_since[number] = run->stats->num_sync_all_streams + 1;
        run->pending_count += block->state == PLM_POOL_BLOCK_PENDING;
        if (run->job->taken)
            run->job->taken[number] = block->bytes;
    }
    plm__pool_stats_reset_peaks(run->stats);
    return PLM_OK;
}

/* Nobody knows where they would have been: the blocks held are placed first, by address. */
static plm_status place_start(replay_run *run)
{
    for (int64_t i = 0; i < run->start.held.count; i++) {
        const plm_event *event = &run->start.held.items[i];
        plm_pool_grant grant;
        if (is_left_out(run, event))
            continue;
        plm_status status = ask(run, event, &grant);
        if (status == PLM_ERROR_DEVICE_MEMORY) {
            run->result->oom++;
            continue;
        }
        PLM_TRY(status);
        run->addresses[event->block] = grant.address;
        if (run->job->taken)
            run->job->taken[event->block] = grant.bytes;
        run->result->placed_first++;
        if (run->start.pending[event->block])
            PLM_TRY(let_go(run, event, true));
    }
    return PLM_OK;
}

/* ---- the end ---- */

/* Compares the pool's final segments with the recorded ones, piece by piece as a walk gives them.
 */
typedef struct segment_check {
    const plm_snapshot_segment *recorded;
    int64_t count;
    int64_t next;        /* recorded segment that the current piece should be */
    uint64_t start, end; /* the current piece: memory without a gap */
    uint64_t segment;    /* that it belongs to */
    int64_t found;
    bool same;
} segment_check;

static void end_piece(segment_check *check)
{
    if (check->start == check->end)
        return;
    check->found++;
    const plm_snapshot_segment *wanted =
        check->next < check->count ? &check->recorded[check->next++] : NULL;
    check->same &= wanted && wanted->address == check->start &&
                   wanted->bytes == (size_t)(check->end - check->start);
    check->start = check->end = 0;
}

static void see_block(void *context, const plm_pool_block *block)
{
    segment_check *check = context;
    if (block->segment_address != check->segment || block->state == PLM_POOL_BLOCK_UNMAPPED)
        end_piece(check);
    check->segment = block->segment_address;
    if (block->state == PLM_POOL_BLOCK_UNMAPPED)
        return;
    if (check->start == check->end)
        check->start = block->address;
    check->end = block->address + block->bytes;
}

static plm_status fill_result(replay_run *run)
{
    plm_replay_result *result = run->result;
    segment_check check = {
        .recorded = run->device->segments, .count = run->device->segment_count, .same = true};
    PLM_TRY(plm__pool_walk(run->pool, see_block, &check));
    end_piece(&check);
    const plm_pool_stat *allocated = &run->stats->of[PLM_POOL_ALLOCATED_BYTES][PLM_POOL_ALL];
    const plm_pool_stat *reserved = &run->stats->of[PLM_POOL_RESERVED_BYTES][PLM_POOL_ALL];
    result->allocated_peak_bytes = (size_t)allocated->peak;
    result->allocated_bytes = (size_t)allocated->current;
    result->reserved_peak_bytes = (size_t)reserved->peak;
    result->reserved_bytes = (size_t)reserved->current;
    result->retries = run->stats->num_alloc_retries;
    result->segments = check.found;
    result->segments_reproduced =
        run->job->as_recorded && check.same && check.found == run->device->segment_count;
    return PLM_OK;
}

/* ---- the job ---- */

/* Places of 256 GiB: above the middle those within other things of the process, below it those that
 * go down. */
enum { PLACE_BITS = 38, MIDDLE_PLACE = 1 << 20, PLACE_COUNT = 1 << 19 };

static const size_t hole_bytes_max = (size_t)512 << 20; /* a larger segment finds none */
static const size_t holes_bytes_most = (size_t)3 << 30; /* in all, as seen in recordings */

/* Eight bits that follow from the order and the number of a segment (a step of a mixing function).
 */
static unsigned mix(uint64_t order, uint64_t number)
{
    const uint64_t mixed = (order << 32 ^ number) * 0x9e3779b97f4a7c15u;
    return (unsigned)((mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u >> 56);
}

/* A driver puts a segment below all others, or in a hole between other things of the process. Which
 * holes there are, and in which order they are taken, is chance: one in four segments, two, or
 * three take one. */
static bool choose_place(void *context, size_t bytes, uint64_t *address)
{
    replay_run *run = context;
    const uint64_t number = ++run->places_taken, order = run->job->address_order;
    if (number >= PLACE_COUNT || bytes > (size_t)1 << PLACE_BITS)
        return false;
    uint64_t place = MIDDLE_PLACE - number;
    if (bytes <= hole_bytes_max && bytes <= holes_bytes_most - run->hole_bytes &&
        mix(order, number) < 64 * (order & 3)) {
        run->hole_bytes += bytes;
        place = MIDDLE_PLACE + (number * (2 * order + 1) * 0x9e375 & (PLACE_COUNT - 1));
    }
    *address = place << PLACE_BITS;
    return true;
}

static plm_status prepare(replay_run *run)
{
    const plm_replay_job *job = run->job;
    bool is_limited = job->capacity_bytes > 0 && job->capacity_bytes < NO_LIMIT;
    size_t capacity = is_limited ? job->capacity_bytes : NO_LIMIT;
    run->block_count = plm__trace_block_count(run->device->trace);
    size_t numbers = (size_t)run->block_count * sizeof *run->addresses;
    PLM_TRY(plm__host_alloc(numbers, &run->addresses));
    PLM_TRY(plm__host_alloc(numbers, &run->pending_since));
    PLM_TRY(plm__start_create(run->device, &job->settings, capacity, run->sizes, &run->start));
    plm__recorded_driver_init(&run->driver, run->events, capacity);
    plm__space_init(&run->space, capacity);
    run->places_taken = run->hole_bytes = 0;
    if (job->address_order) {
        run->space.chooser = choose_place;
        run->space.chooser_context = run;
        run->space.next_address = (uint64_t)(MIDDLE_PLACE + PLACE_COUNT) << PLACE_BITS;
    }
    plm_source *source = job->as_recorded ? &run->driver.source : &run->space.source;
    PLM_TRY(plm__pool_create(job->policy, source, &job->settings, &run->pool));
    run->stats = plm__pool_statistics(run->pool);
    return PLM_OK;
}

/* One run; when it proves a guess wrong, *result means nothing. */
static plm_status run_once(replay_run *run, plm_replay_result *result)
{
    plm_status status;
    *result = (plm_replay_result){.is_replayed = true, .as_recorded = run->job->as_recorded};
    run->result = result;
    run->is_wrong = false;
    run->pending_count = 0;
    PLM_TRY_DONE(prepare(run));
    PLM_TRY_DONE(run->job->as_recorded ? adopt_start(run) : place_start(run));
    PLM_TRY_DONE(replay_events(run));
    PLM_TRY_DONE(fill_result(run));
done:
    plm__pool_destroy(run->pool);
    run->pool = NULL;
    plm__space_fini(&run->space);
    plm__start_fini(&run->start);
    plm__host_free(run->pending_since);
    plm__host_free(run->addresses);
    run->pending_since = NULL;
    run->addresses = NULL;
    return status;
}

/* The run is void: what it told and filled in is not so. */
static void forget_run(const replay_run *run)
{
    const plm_replay_job *job = run->job;
    if (job->taken)
        memset(job->taken, 0, (size_t)run->block_count * sizeof *job->taken);
    if (job->restarts)
        job->restarts(job->context);
}

plm_status plm__replay_job_run(const plm_replay_job *job, plm_replay_result *result)
{
    int64_t owner_count;
    plm_replay_result found;
    replay_run run = {.job = job, .device = job->device};
    run.events = plm_trace_events(job->device->trace, &run.count);
    run.owners = plm_trace_owners(job->device->trace, &owner_count);
    plm_status status;
    do {
        status = run_once(&run, &found);
        run.corrections++;
        if (status == PLM_OK && run.is_wrong)
            forget_run(&run);
    } while (status == PLM_OK && run.is_wrong);
    if (status == PLM_OK)
        *result = found;
    plm__host_free(run.sizes);
    return status;
}
