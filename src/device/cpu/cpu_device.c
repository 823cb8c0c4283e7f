/* SPDX-License-Identifier: MIT */
/*
 * The CPU device: the contract's table over memory, products and kernels. Everything is done when
 * a function returns, so there is nothing to fence and no signal to wait for. Which operations
 * exist and what workspace they want is read from kernels.def.
 */
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "device/cpu/cpu.h"
#include "device/cpu/cpu_internal.h"
#include "device/cpu/kernel/attention_shape.h"
#include "device/cpu/kernel/attention_tile.h"
#include "device/cpu/kernel/id_order.h"
#include "device/cpu/kernel/product_block.h"
#include "device/cpu/kernel/row_room.h"

typedef struct plm_cpu {
    plm_device base;
    const plm_cpu_kernels *kernels;
    plm_products *products;
} plm_cpu;

/* A formula for the workspace of an operation whose shapes were checked. */
typedef plm_status workspace_formula(plm_cpu *cpu, const plm_launch *launch, size_t *bytes);

static plm_status plm__cpu_workspace_none(plm_cpu *cpu, const plm_launch *launch, size_t *bytes)
{
    (void)cpu;
    (void)launch;
    *bytes = 0;
    return PLM_OK;
}

/* `floats` for each thread. */
static plm_status for_each_thread(const plm_cpu *cpu, int64_t floats, size_t *bytes)
{
    return plm__mul_bytes((size_t)floats * sizeof(float), (size_t)cpu->base.threads, bytes);
}

static plm_status plm__cpu_workspace_product(plm_cpu *cpu, const plm_launch *launch, size_t *bytes)
{
    if (plm__products_take(cpu->products, launch))
        return plm__products_workspace(cpu->products, launch, bytes);
    return for_each_thread(cpu, PLM_PRODUCT_FLOATS, bytes);
}

static plm_status plm__cpu_workspace_attention(plm_cpu *cpu, const plm_launch *launch,
                                               size_t *bytes)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    return for_each_thread(cpu, plm__attention_floats(s.head_width, s.half), bytes);
}

static plm_status plm__cpu_workspace_attention_grad(plm_cpu *cpu, const plm_launch *launch,
                                                    size_t *bytes)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    int64_t floats = plm__attention_grad_floats(s.head_width, s.positions, s.half);
    return for_each_thread(cpu, floats, bytes);
}

static plm_status plm__cpu_workspace_attention_plain(plm_cpu *cpu, const plm_launch *launch,
                                                     size_t *bytes)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    return for_each_thread(cpu, s.half ? plm__attention_plain_floats(s.head_width) : 0, bytes);
}

static plm_status plm__cpu_workspace_rows(plm_cpu *cpu, const plm_launch *launch, size_t *bytes)
{
    plm_row_need need = plm__row_need_of(launch->kind);
    size_t rows = (size_t)need.shared + (size_t)need.each * (size_t)cpu->base.threads;
    size_t row_bytes = (size_t)plm__row_floats(plm__operand_width(&launch->in[0])) * sizeof(float);
    return plm__mul_bytes(plm__is_half(&launch->in[0]) ? rows : 0, row_bytes, bytes);
}

static plm_status plm__cpu_workspace_id_order(plm_cpu *cpu, const plm_launch *launch, size_t *bytes)
{
    int64_t count = plm__operand_count(&launch->in[0]), vocabulary = launch->effect[0].shape[0];
    if (!plm__is_half(&launch->effect[0]))
        return plm__cpu_workspace_none(cpu, launch, bytes);
    PLM_FAIL_IF(count > INT32_MAX, PLM_ERROR_OVERFLOW, "%s: %lld positions are too many to order",
                plm__op_info_of(launch->kind)->text, (long long)count);
    return plm__mul_bytes((size_t)plm__id_order_words(count, vocabulary), sizeof(int32_t), bytes);
}

static workspace_formula *const formulas[PLM_OP_COUNT] = {
#define PLM_KERNEL_CPU(kind, name, workspace) [PLM_OP_##kind] = plm__cpu_workspace_##workspace,
#include "device/kernels.def"
};

static plm_status workspace(plm_device *device, const plm_launch *launch, size_t *bytes)
{
    PLM_TRY(plm__cpu_check_shapes(launch));
    PLM_FAIL_IF(!formulas[launch->kind], PLM_ERROR_UNSUPPORTED, "the CPU has no row for %s",
                plm__op_info_of(launch->kind)->text);
    return formulas[launch->kind]((plm_cpu *)device, launch, bytes);
}

static plm_status prepare(plm_device *device, const plm_launch *launch, void **prepared)
{
    plm_cpu *cpu = (plm_cpu *)device;
    size_t bytes;
    PLM_TRY(workspace(device, launch, &bytes));
    PLM_FAIL_IF(launch->workspace_bytes < bytes || (bytes > 0 && !launch->workspace),
                PLM_ERROR_ARGUMENT, "wanted %zu bytes of workspace, found %zu", bytes,
                launch->workspace_bytes);
    if (plm__products_take(cpu->products, launch))
        return plm__products_prepare(cpu->products, launch, prepared);
    PLM_FAIL_IF(!cpu->kernels->run[launch->kind], PLM_ERROR_UNSUPPORTED,
                "the CPU has no kernel for %s", plm__op_info_of(launch->kind)->text);
    *prepared = NULL;
    return PLM_OK;
}

static void forget(plm_device *device, void *prepared)
{
    (void)device;
    plm__products_forget(prepared);
}

static plm_status launch_one(plm_device *device, const plm_launch *launch, void *prepared)
{
    plm_cpu *cpu = (plm_cpu *)device;
    if (plm__products_take(cpu->products, launch))
        return plm__products_launch(cpu->products, launch, prepared);
    cpu->kernels->run[launch->kind](launch, device->threads);
    return PLM_OK;
}

static plm_status copy(plm_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        memcpy(to, from, bytes);
    return PLM_OK;
}

static plm_status fill(plm_device *device, void *to, uint8_t value, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        memset(to, value, bytes);
    return PLM_OK;
}

static plm_status reserve_host(plm_device *device, size_t bytes, void **memory)
{
    (void)device;
    return plm__host_alloc(bytes, memory);
}

static void release_host(plm_device *device, void *memory)
{
    (void)device;
    plm__host_free(memory);
}

static plm_status copy_on(plm_device *device, plm_queue queue, void *to, const void *from,
                          size_t bytes)
{
    (void)queue;
    return copy(device, to, from, bytes);
}

static plm_status create_signal(plm_device *device, void **signal)
{
    (void)device;
    *signal = NULL;
    return PLM_OK;
}

static void destroy_signal(plm_device *device, void *signal)
{
    (void)device;
    (void)signal;
}

static plm_status pass(plm_device *device, plm_queue queue, void *signal)
{
    (void)device;
    (void)queue;
    (void)signal;
    return PLM_OK;
}

static plm_status await(plm_device *device, void *signal)
{
    (void)device;
    (void)signal;
    return PLM_OK;
}

static plm_status fence(plm_device *device)
{
    (void)device;
    return PLM_OK;
}

static bool is_instrumented(plm_op_kind kind)
{
    return !plm__products_run(kind);
}

static size_t overhead_bytes(plm_device *device)
{
    return plm__products_overhead_bytes(((plm_cpu *)device)->products);
}

static plm_status available_bytes(plm_device *device, size_t *bytes)
{
    (void)device;
    return plm__memory_available(bytes);
}

static bool has_dtype(const plm_device *device, plm_dtype dtype)
{
    return plm__products_have(((const plm_cpu *)device)->products, dtype);
}

static void destroy(plm_device *device)
{
    plm_cpu *cpu = (plm_cpu *)device;
    plm__products_destroy(cpu->products);
    plm__host_free(cpu);
}

static const plm_device_table cpu_table = {
    .kind = "cpu",
    .destroy = destroy,
    .reserve = plm__cpu_reserve,
    .release = plm__cpu_release,
    .workspace = workspace,
    .prepare = prepare,
    .forget = forget,
    .launch = launch_one,
    .copy_in = copy,
    .copy_out = copy,
    .fill = fill,
    .reserve_host = reserve_host,
    .release_host = release_host,
    .copy = copy_on,
    .create_signal = create_signal,
    .destroy_signal = destroy_signal,
    .signal = pass,
    .wait = pass,
    .await = await,
    .fence = fence,
    .is_instrumented = is_instrumented,
    .overhead_bytes = overhead_bytes,
    .available_bytes = available_bytes,
    .has_dtype = has_dtype,
};

plm_status plm__cpu_create(int32_t threads, size_t cap_bytes, plm_device **device)
{
    PLM_FAIL_IF(threads < 0 || threads > PLM_CPU_THREADS_MAX, PLM_ERROR_ARGUMENT,
                "wanted 0 to %d threads, found %d", PLM_CPU_THREADS_MAX, threads);
    plm_cpu *cpu = NULL;
    PLM_TRY(plm__host_alloc(sizeof *cpu, &cpu));
    int32_t given =
        threads > 0 ? threads : (int32_t)plm__min(omp_get_max_threads(), PLM_CPU_THREADS_MAX);
    cpu->base =
        (plm_device){.table = &cpu_table, .usage = {.cap_bytes = cap_bytes}, .threads = given};
    cpu->kernels = plm__cpu_best_kernels();
    plm_status status = plm__products_create(given, &cpu->products);
    return PLM_HAND_OVER(status, &cpu->base, destroy, device);
}

void plm__cpu_use_kernels(plm_device *device, const plm_cpu_kernels *kernels)
{
    ((plm_cpu *)device)->kernels = kernels;
}

void plm__cpu_use_silicon(plm_device *device, bool wanted)
{
    plm__products_use_silicon(((plm_cpu *)device)->products, wanted);
}
