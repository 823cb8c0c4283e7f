/* SPDX-License-Identifier: MIT */
/*
 * A device with two queues over the CPU, for tests, which keeps time as badly as the contract
 * allows: one queue runs everything at once, unless it has to wait; the other runs nothing until
 * somebody waits for it, and then no more than that takes. What lacks a wait reads what is not
 * there yet, or writes over what is still to be read, every time.
 */
#ifndef PLM_TEST_FAKE_QUEUES_H
#define PLM_TEST_FAKE_QUEUES_H

#include "unit/test.h"

#include "base/array.h"
#include "device/device.h"

enum { FAKE_QUEUES = PLM_QUEUE_COPY + 1 };

typedef enum fake_task_kind {
    FAKE_LAUNCH,
    FAKE_COPY,
    FAKE_FILL,
    FAKE_SIGNAL,
    FAKE_WAIT
} fake_task_kind;

typedef struct fake_signal {
    int64_t enqueued, given; /* times */
} fake_signal;

/* Something that was enqueued and has not run. */
typedef struct fake_task {
    fake_task_kind kind;
    const plm_launch *launch;
    void *prepared;
    void *to;
    const void *from;
    void *owned; /* a copy of `from` that is the task's */
    size_t bytes;
    uint8_t value;
    fake_signal *signal;
    int64_t target; /* of a wait: times that the signal must have been given */
} fake_task;

typedef struct fake_queues {
    plm_device head;
    plm_device_table table;
    plm_device *inner;
    plm_queue late;
    bool no_wait[FAKE_QUEUES]; /* planted: waits of this queue are forgotten */
    bool no_await;             /* planted: so are those of the host */
    PLM_ARRAY(fake_task) tasks[FAKE_QUEUES];
    int64_t done[FAKE_QUEUES];
    int64_t moved; /* copies that ran on PLM_QUEUE_COPY */
} fake_queues;

/* Runs the next task of a queue; false when there is none, or it has to wait. */
static inline bool fake_run_next(fake_queues *fake, plm_queue queue)
{
    if (fake->done[queue] == fake->tasks[queue].count)
        return false;
    fake_task *task = &fake->tasks[queue].items[fake->done[queue]];
    plm_device *inner = fake->inner;
    if (task->kind == FAKE_WAIT && task->signal->given < task->target)
        return false;
    if (task->kind == FAKE_LAUNCH)
        assert_ok(inner->table->launch(inner, task->launch, task->prepared));
    else if (task->kind == FAKE_COPY)
        memcpy(task->to, task->owned ? task->owned : task->from, task->bytes);
    else if (task->kind == FAKE_FILL)
        memset(task->to, task->value, task->bytes);
    else if (task->kind == FAKE_SIGNAL)
        task->signal->given++;
    fake->moved += task->kind == FAKE_COPY && queue == PLM_QUEUE_COPY;
    plm__host_free(task->owned);
    if (++fake->done[queue] == fake->tasks[queue].count)
        fake->done[queue] = fake->tasks[queue].count = 0;
    return true;
}

static inline plm_queue fake_early(const fake_queues *fake)
{
    return fake->late == PLM_QUEUE_COPY ? PLM_QUEUE_COMPUTE : PLM_QUEUE_COPY;
}

/* The queue that is not late does all that it can. */
static inline void fake_run_early(fake_queues *fake)
{
    while (fake_run_next(fake, fake_early(fake)))
        ;
}

/* One step more of the late queue, and what that lets the other do; false when nothing is left. */
static inline bool fake_run_on(fake_queues *fake)
{
    bool ran = fake_run_next(fake, fake->late);
    fake_run_early(fake);
    return ran;
}

static inline void fake_drain(fake_queues *fake)
{
    while (fake_run_on(fake))
        ;
    for (int i = 0; i < FAKE_QUEUES; i++)
        assert_int_equal(fake->tasks[i].count, 0); /* or the queues wait for each other */
}

static inline plm_status fake_enqueue(plm_device *device, plm_queue queue, fake_task task)
{
    fake_queues *fake = (fake_queues *)device;
    PLM_TRY(PLM_ARRAY_PUSH(&fake->tasks[queue], task));
    fake_run_early(fake);
    return PLM_OK;
}

static inline void fake_queues_destroy(plm_device *device)
{
    fake_queues *fake = (fake_queues *)device;
    fake_drain(fake);
    for (int i = 0; i < FAKE_QUEUES; i++)
        PLM_ARRAY_FREE(&fake->tasks[i]);
    plm_device_destroy(fake->inner);
}

static inline plm_status fake_queues_reserve(plm_device *device, size_t bytes, void **region)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    inner->usage = device->usage;
    PLM_TRY(inner->table->reserve(inner, bytes, region));
    device->usage = inner->usage;
    return PLM_OK;
}

static inline void fake_queues_release(plm_device *device, void *region, size_t bytes)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    fake_drain((fake_queues *)device);
    inner->table->release(inner, region, bytes);
    device->usage = inner->usage;
}

static inline plm_status fake_queues_workspace(plm_device *device, const plm_launch *launch,
                                               size_t *bytes)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    return inner->table->workspace(inner, launch, bytes);
}

static inline plm_status fake_queues_prepare(plm_device *device, const plm_launch *launch,
                                             void **prepared)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    return inner->table->prepare(inner, launch, prepared);
}

static inline void fake_queues_forget(plm_device *device, void *prepared)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    fake_drain((fake_queues *)device);
    inner->table->forget(inner, prepared);
}

static inline plm_status fake_queues_launch(plm_device *device, const plm_launch *launch,
                                            void *prepared)
{
    return fake_enqueue(device, PLM_QUEUE_COMPUTE,
                        (fake_task){.kind = FAKE_LAUNCH, .launch = launch, .prepared = prepared});
}

static inline plm_status fake_queues_copy(plm_device *device, plm_queue queue, void *to,
                                          const void *from, size_t bytes)
{
    return fake_enqueue(device, queue,
                        (fake_task){.kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes});
}

static inline plm_status fake_queues_copy_in(plm_device *device, void *to, const void *from,
                                             size_t bytes)
{
    fake_task task = {.kind = FAKE_COPY, .to = to, .bytes = bytes};
    if (bytes == 0)
        return PLM_OK;
    PLM_TRY(plm__host_alloc(bytes, &task.owned));
    memcpy(task.owned, from, bytes);
    return fake_enqueue(device, PLM_QUEUE_COMPUTE, task);
}

static inline plm_status fake_queues_copy_out(plm_device *device, void *to, const void *from,
                                              size_t bytes)
{
    return fake_queues_copy(device, PLM_QUEUE_COMPUTE, to, from, bytes);
}

static inline plm_status fake_queues_fill(plm_device *device, void *to, uint8_t value, size_t bytes)
{
    return fake_enqueue(device, PLM_QUEUE_COMPUTE,
                        (fake_task){.kind = FAKE_FILL, .to = to, .value = value, .bytes = bytes});
}

static inline plm_status fake_queues_reserve_host(plm_device *device, size_t bytes, void **memory)
{
    (void)device;
    return plm__host_alloc(bytes, memory);
}

static inline void fake_queues_release_host(plm_device *device, void *memory)
{
    (void)device;
    plm__host_free(memory);
}

static inline plm_status fake_queues_create_signal(plm_device *device, void **signal)
{
    (void)device;
    return plm__host_alloc(sizeof(fake_signal), signal);
}

static inline void fake_queues_destroy_signal(plm_device *device, void *signal)
{
    fake_drain((fake_queues *)device);
    plm__host_free(signal);
}

static inline plm_status fake_queues_signal(plm_device *device, plm_queue queue, void *signal)
{
    ((fake_signal *)signal)->enqueued++;
    return fake_enqueue(device, queue, (fake_task){.kind = FAKE_SIGNAL, .signal = signal});
}

static inline plm_status fake_queues_wait(plm_device *device, plm_queue queue, void *signal)
{
    const fake_queues *fake = (const fake_queues *)device;
    fake_signal *waited = signal;
    if (fake->no_wait[queue])
        return PLM_OK;
    return fake_enqueue(
        device, queue,
        (fake_task){.kind = FAKE_WAIT, .signal = waited, .target = waited->enqueued});
}

static inline plm_status fake_queues_await(plm_device *device, void *signal)
{
    fake_queues *fake = (fake_queues *)device;
    const fake_signal *waited = signal;
    while (!fake->no_await && waited->given < waited->enqueued)
        if (!fake_run_on(fake))
            fail_msg("the host waits for what never comes");
    return PLM_OK;
}

static inline plm_status fake_queues_fence(plm_device *device)
{
    fake_drain((fake_queues *)device);
    return PLM_OK;
}

static inline size_t fake_queues_overhead(plm_device *device)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    return inner->table->overhead_bytes(inner);
}

static inline plm_status fake_queues_available(plm_device *device, size_t *bytes)
{
    plm_device *inner = ((fake_queues *)device)->inner;
    return inner->table->available_bytes(inner, bytes);
}

static inline bool fake_queues_has_dtype(const plm_device *device, plm_dtype dtype)
{
    return plm__device_has(((const fake_queues *)device)->inner, dtype);
}

static const plm_device_table fake_queues_table = {
    .kind = "queues",
    .destroy = fake_queues_destroy,
    .reserve = fake_queues_reserve,
    .release = fake_queues_release,
    .workspace = fake_queues_workspace,
    .prepare = fake_queues_prepare,
    .forget = fake_queues_forget,
    .launch = fake_queues_launch,
    .copy_in = fake_queues_copy_in,
    .copy_out = fake_queues_copy_out,
    .fill = fake_queues_fill,
    .reserve_host = fake_queues_reserve_host,
    .release_host = fake_queues_release_host,
    .copy = fake_queues_copy,
    .create_signal = fake_queues_create_signal,
    .destroy_signal = fake_queues_destroy_signal,
    .signal = fake_queues_signal,
    .wait = fake_queues_wait,
    .await = fake_queues_await,
    .fence = fake_queues_fence,
    .overhead_bytes = fake_queues_overhead,
    .available_bytes = fake_queues_available,
    .has_copy_queue = true,
    .has_dtype = fake_queues_has_dtype,
};

/* Of one thread; stays where it is until it is destroyed, which plm_device_destroy does. */
static inline void fake_queues_open(fake_queues *fake, plm_queue late, size_t cap_bytes)
{
    *fake = (fake_queues){.table = fake_queues_table, .late = late};
    assert_ok(plm_device_open("cpu", 1, cap_bytes, &fake->inner));
    fake->head =
        (plm_device){.table = &fake->table, .usage = {.cap_bytes = cap_bytes}, .threads = 1};
}

#endif
