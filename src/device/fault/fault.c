/* SPDX-License-Identifier: MIT */
/* The device that fails on demand: each function asks the wire, then the wrapped device. */
#include "device/fault/fault.h"

typedef struct fault_device {
    plm_device base;
    plm_device_table table;
    plm_device *inner;
    plm_fault *fault;
} fault_device;

static const char *const call_texts[PLM_FAULT_COUNT + 1] = {
#define CALL_ROW(name, text) [PLM_FAULT_##name] = (text),
    PLM_FAULT_MAP(CALL_ROW)
#undef CALL_ROW
        [PLM_FAULT_ANY] = "any",
};

const char *plm__fault_text(plm_fault_call call)
{
    return call_texts[call];
}

bool plm__fault_at(plm_fault *fault, plm_fault_call kind, int64_t n, bool persistent)
{
    fault->kind = kind;
    return plm__trip_set(&fault->trip, n, persistent);
}

/* Counts a call; whether it is to fail. */
static bool fails(fault_device *device, plm_fault_call call)
{
    plm_fault *fault = device->fault;
    fault->calls[call]++;
    return (fault->kind == PLM_FAULT_ANY || fault->kind == call) && plm__trip_hit(&fault->trip);
}

#define FAIL_ON_DEMAND(device, call)                                                               \
    PLM_FAIL_IF(fails(device, call), PLM_ERROR_DEVICE, "the %s device failed in '%s'",             \
                (device)->inner->table->kind, plm__fault_text(call))

static void destroy(plm_device *base)
{
    fault_device *device = (fault_device *)base;
    device->fault->devices--;
    plm_device_destroy(device->inner);
    plm__host_free(device);
}

static plm_status refuse(const fault_device *device, size_t bytes)
{
    const plm_device_usage *usage = &device->base.usage;
    plm_status status =
        plm_fail(PLM_ERROR_DEVICE_MEMORY, "out of memory on the %s: wanted %zu bytes, %zu are left",
                 device->inner->table->kind, bytes, device->fault->left_bytes);
    plm__fail_oom(&(plm_oom_record){
        .asked_bytes = bytes,
        .rounded_bytes = bytes,
        .live_bytes = usage->live_bytes,
        .reserved_bytes = usage->live_bytes,
        .budget_bytes = usage->cap_bytes,
        .largest_free_bytes = device->fault->left_bytes,
    });
    return status;
}

static plm_status reserve(plm_device *base, size_t bytes, void **region)
{
    fault_device *device = (fault_device *)base;
    if (fails(device, PLM_FAULT_RESERVE))
        return refuse(device, bytes);
    device->inner->usage = base->usage; /* the cap may have been set anew */
    PLM_TRY(device->inner->table->reserve(device->inner, bytes, region));
    base->usage = device->inner->usage;
    device->fault->regions++;
    return PLM_OK;
}

static void release(plm_device *base, void *region, size_t bytes)
{
    fault_device *device = (fault_device *)base;
    device->inner->table->release(device->inner, region, bytes);
    base->usage = device->inner->usage;
    device->fault->regions--;
}

static plm_status workspace(plm_device *base, const plm_launch *launch, size_t *bytes)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_WORKSPACE);
    return device->inner->table->workspace(device->inner, launch, bytes);
}

static plm_status prepare(plm_device *base, const plm_launch *launch, void **prepared)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_PREPARE);
    PLM_TRY(device->inner->table->prepare(device->inner, launch, prepared));
    device->fault->prepared += *prepared != NULL;
    return PLM_OK;
}

static void forget(plm_device *base, void *prepared)
{
    fault_device *device = (fault_device *)base;
    device->fault->prepared -= prepared != NULL;
    device->inner->table->forget(device->inner, prepared);
}

static plm_status launch_one(plm_device *base, const plm_launch *launch, void *prepared)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_LAUNCH);
    return device->inner->table->launch(device->inner, launch, prepared);
}

static plm_status copy_in(plm_device *base, void *to, const void *from, size_t bytes)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_COPY_IN);
    return device->inner->table->copy_in(device->inner, to, from, bytes);
}

static plm_status copy_out(plm_device *base, void *to, const void *from, size_t bytes)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_COPY_OUT);
    return device->inner->table->copy_out(device->inner, to, from, bytes);
}

static plm_status fill(plm_device *base, void *to, uint8_t value, size_t bytes)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_FILL);
    return device->inner->table->fill(device->inner, to, value, bytes);
}

static plm_status reserve_host(plm_device *base, size_t bytes, void **memory)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_RESERVE_HOST);
    PLM_TRY(device->inner->table->reserve_host(device->inner, bytes, memory));
    device->fault->regions++;
    return PLM_OK;
}

static void release_host(plm_device *base, void *memory)
{
    fault_device *device = (fault_device *)base;
    device->fault->regions -= memory != NULL;
    device->inner->table->release_host(device->inner, memory);
}

static plm_status copy(plm_device *base, plm_queue queue, void *to, const void *from, size_t bytes)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_COPY);
    return device->inner->table->copy(device->inner, queue, to, from, bytes);
}

static plm_status create_signal(plm_device *base, void **signal)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_CREATE_SIGNAL);
    PLM_TRY(device->inner->table->create_signal(device->inner, signal));
    device->fault->signals += *signal != NULL;
    return PLM_OK;
}

static void destroy_signal(plm_device *base, void *signal)
{
    fault_device *device = (fault_device *)base;
    device->fault->signals -= signal != NULL;
    device->inner->table->destroy_signal(device->inner, signal);
}

static plm_status give_signal(plm_device *base, plm_queue queue, void *signal)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_SIGNAL);
    return device->inner->table->signal(device->inner, queue, signal);
}

static plm_status wait_for(plm_device *base, plm_queue queue, void *signal)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_WAIT);
    return device->inner->table->wait(device->inner, queue, signal);
}

static plm_status await(plm_device *base, void *signal)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_AWAIT);
    return device->inner->table->await(device->inner, signal);
}

static plm_status fence(plm_device *base)
{
    fault_device *device = (fault_device *)base;
    FAIL_ON_DEMAND(device, PLM_FAULT_FENCE);
    return device->inner->table->fence(device->inner);
}

static size_t overhead_bytes(plm_device *base)
{
    plm_device *inner = ((fault_device *)base)->inner;
    return inner->table->overhead_bytes(inner);
}

static plm_status available_bytes(plm_device *base, size_t *bytes)
{
    plm_device *inner = ((fault_device *)base)->inner;
    return inner->table->available_bytes(inner, bytes);
}

static bool has_dtype(const plm_device *base, plm_dtype dtype)
{
    return plm__device_has(((const fault_device *)base)->inner, dtype);
}

static const plm_device_table fault_table = {
    .kind = "fault",
    .destroy = destroy,
    .reserve = reserve,
    .release = release,
    .workspace = workspace,
    .prepare = prepare,
    .forget = forget,
    .launch = launch_one,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .fill = fill,
    .reserve_host = reserve_host,
    .release_host = release_host,
    .copy = copy,
    .create_signal = create_signal,
    .destroy_signal = destroy_signal,
    .signal = give_signal,
    .wait = wait_for,
    .await = await,
    .fence = fence,
    .overhead_bytes = overhead_bytes,
    .available_bytes = available_bytes,
    .has_dtype = has_dtype,
};

plm_status plm__device_create_fault(plm_device *inner, plm_fault *fault, plm_device **device)
{
    fault_device *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->table = fault_table;
    made->table.is_instrumented = inner->table->is_instrumented;
    made->table.has_copy_queue = inner->table->has_copy_queue;
    made->table.row_multiple = inner->table->row_multiple;
    made->base =
        (plm_device){.table = &made->table, .usage = inner->usage, .threads = inner->threads};
    made->inner = inner;
    made->fault = fault;
    fault->devices++;
    *device = &made->base;
    return PLM_OK;
}
