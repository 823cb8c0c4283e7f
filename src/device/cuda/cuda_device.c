/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device: the contract's table over memory, products, attention and kernels. Everything is
 * enqueued on one stream, copies that may run beside it on another. What workspace an operation
 * has, the formulas of device/target say, which a plan asks without a GPU.
 */
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "device/cuda/cuda_host.h"
#include "device/cuda/cuda_internal.h"
#include "device/target/cuda_workspace.h"

static plm_status workspace(plm_device *device, const plm_launch *launch, size_t *bytes)
{
    (void)device;
    return plm__cuda_workspace(launch, bytes);
}

static plm_status prepare(plm_device *device, const plm_launch *launch, void **prepared)
{
    plm_cuda *cuda = (plm_cuda *)device;
    size_t bytes;
    *prepared = NULL;
    PLM_TRY(plm__cuda_workspace(launch, &bytes));
    PLM_FAIL_IF(launch->workspace_bytes < bytes || (bytes > 0 && !launch->workspace),
                PLM_ERROR_ARGUMENT, "wanted %zu bytes of workspace, found %zu", bytes,
                launch->workspace_bytes);
    if (plm__cuda_products_take(launch))
        return plm__cuda_products_prepare(cuda, launch, prepared);
    if (plm__cuda_graphs_take(cuda, launch))
        return plm__cuda_graphs_prepare(cuda, launch, prepared);
    PLM_FAIL_IF(!plm__cuda_kernels_take(launch), PLM_ERROR_UNSUPPORTED,
                "the GPU has no kernel for operation %d", (int)launch->kind);
    return PLM_OK;
}

/* Each kind of prepared launch begins with the function that ends it. */
static void forget(plm_device *device, void *prepared)
{
    plm_cuda_prepared *head = prepared;
    if (head)
        head->forget((plm_cuda *)device, prepared);
}

static plm_status launch_one(plm_device *device, const plm_launch *launch, void *prepared)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (plm__cuda_products_take(launch))
        return plm__cuda_products_launch(cuda, launch, prepared);
    if (plm__cuda_graphs_take(cuda, launch))
        return plm__cuda_graphs_launch(cuda, launch, prepared);
    return plm__cuda_kernels_launch(cuda, launch);
}

static plm_status copy_in(plm_device *device, void *to, const void *from, size_t bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (bytes > 0) /* from pageable memory: the driver has taken it when the call returns */
        PLM_CUDA_TRY(cuda, cuMemcpyHtoDAsync((CUdeviceptr)to, from, bytes, cuda->stream));
    return PLM_OK;
}

static plm_status copy_out(plm_device *device, void *to, const void *from, size_t bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (bytes > 0)
        PLM_CUDA_TRY(cuda, cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, cuda->stream));
    return PLM_OK;
}

static plm_status fill(plm_device *device, void *to, uint8_t value, size_t bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (bytes > 0)
        PLM_CUDA_TRY(cuda, cuMemsetD8Async((CUdeviceptr)to, value, bytes, cuda->stream));
    return PLM_OK;
}

static plm_status reserve_host(plm_device *device, size_t bytes, void **memory)
{
    plm_cuda *cuda = (plm_cuda *)device;
    CUresult result = cuda->driver.cuMemHostAlloc(memory, bytes, 0);
    PLM_FAIL_IF(result == CUDA_ERROR_OUT_OF_MEMORY, PLM_ERROR_HOST_MEMORY,
                "wanted %zu bytes of host memory that the GPU copies from, the driver gave none",
                bytes);
    return result == CUDA_SUCCESS ? PLM_OK
                                  : plm__cuda_fail(&cuda->driver, result, "memory of the host");
}

static void release_host(plm_device *device, void *memory)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (memory)
        cuda->driver.cuMemFreeHost(memory);
}

static CUstream stream_of(const plm_cuda *cuda, plm_queue queue)
{
    return queue == PLM_QUEUE_COPY ? cuda->copies : cuda->stream;
}

static plm_status copy(plm_device *device, plm_queue queue, void *to, const void *from,
                       size_t bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (bytes > 0)
        PLM_CUDA_TRY(
            cuda, cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream_of(cuda, queue)));
    return PLM_OK;
}

static plm_status create_signal(plm_device *device, void **signal)
{
    plm_cuda *cuda = (plm_cuda *)device;
    CUevent event = NULL;
    PLM_CUDA_TRY(cuda, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    *signal = event;
    return PLM_OK;
}

static void destroy_signal(plm_device *device, void *signal)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (signal)
        cuda->driver.cuEventDestroy((CUevent)signal);
}

static plm_status give_signal(plm_device *device, plm_queue queue, void *signal)
{
    plm_cuda *cuda = (plm_cuda *)device;
    PLM_CUDA_TRY(cuda, cuEventRecord((CUevent)signal, stream_of(cuda, queue)));
    return PLM_OK;
}

static plm_status wait_for(plm_device *device, plm_queue queue, void *signal)
{
    plm_cuda *cuda = (plm_cuda *)device;
    PLM_CUDA_TRY(cuda, cuStreamWaitEvent(stream_of(cuda, queue), (CUevent)signal, 0));
    return PLM_OK;
}

static plm_status await(plm_device *device, void *signal)
{
    plm_cuda *cuda = (plm_cuda *)device;
    PLM_CUDA_TRY(cuda, cuEventSynchronize((CUevent)signal));
    return PLM_OK;
}

static plm_status begin_graph(plm_device *device)
{
    plm_cuda *cuda = (plm_cuda *)device;
    PLM_CUDA_TRY(cuda, cuStreamBeginCapture(cuda->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    return PLM_OK;
}

static plm_status end_graph(plm_device *device, void **graph)
{
    plm_cuda *cuda = (plm_cuda *)device;
    CUgraph recorded = NULL;
    CUgraphExec ready = NULL;
    if (!graph) {
        cuda->driver.cuStreamEndCapture(cuda->stream, &recorded);
        if (recorded)
            cuda->driver.cuGraphDestroy(recorded);
        return PLM_OK;
    }
    PLM_CUDA_TRY(cuda, cuStreamEndCapture(cuda->stream, &recorded));
    CUresult result = cuda->driver.cuGraphInstantiate(&ready, recorded, 0);
    cuda->driver.cuGraphDestroy(recorded);
    if (result != CUDA_SUCCESS)
        return plm__cuda_fail(&cuda->driver, result, "to make a graph of a program");
    *graph = ready;
    return PLM_OK;
}

static plm_status run_graph(plm_device *device, void *graph)
{
    plm_cuda *cuda = (plm_cuda *)device;
    PLM_CUDA_TRY(cuda, cuGraphLaunch((CUgraphExec)graph, cuda->stream));
    return PLM_OK;
}

static void drop_graph(plm_device *device, void *graph)
{
    plm_cuda *cuda = (plm_cuda *)device;
    if (graph)
        cuda->driver.cuGraphExecDestroy((CUgraphExec)graph);
}

static plm_status fence(plm_device *device)
{
    plm_cuda *cuda = (plm_cuda *)device;
    CUresult copied = cuda->driver.cuStreamSynchronize(cuda->copies);
    PLM_CUDA_TRY(cuda, cuStreamSynchronize(cuda->stream));
    return copied == CUDA_SUCCESS
               ? PLM_OK
               : plm__cuda_fail(&cuda->driver, copied, "to end the copies of inputs");
}

static size_t overhead_bytes(plm_device *device)
{
    return ((plm_cuda *)device)->overhead_bytes;
}

static plm_status process_bytes(plm_device *device, size_t *bytes)
{
    return plm__cuda_process_bytes((plm_cuda *)device, bytes);
}

static plm_status available_bytes(plm_device *device, size_t *bytes)
{
    plm_cuda *cuda = (plm_cuda *)device;
    size_t total = 0;
    PLM_CUDA_TRY(cuda, cuMemGetInfo(bytes, &total));
    return PLM_OK;
}

static void be_deterministic(plm_device *device, bool wanted)
{
    ((plm_cuda *)device)->deterministic = wanted;
}

static bool has_dtype(const plm_device *device, plm_dtype dtype)
{
    (void)device; /* from compute capability 8.0 on, which opening asks for */
    return dtype == PLM_DTYPE_F32 || dtype == PLM_DTYPE_BF16 || dtype == PLM_DTYPE_F16;
}

static void destroy(plm_device *device)
{
    plm_cuda *cuda = (plm_cuda *)device;
    plm__cuda_graphs_close(cuda);
    plm__cuda_products_close(cuda);
    plm__cuda_kernels_unload(cuda);
    if (cuda->copies)
        cuda->driver.cuStreamDestroy(cuda->copies);
    if (cuda->stream)
        cuda->driver.cuStreamDestroy(cuda->stream);
    if (cuda->context)
        cuda->driver.cuDevicePrimaryCtxRelease(cuda->number);
    plm__cuda_driver_close(&cuda->driver);
    plm__host_free(cuda);
}

static const plm_device_table cuda_table = {
    .kind = "cuda",
    .destroy = destroy,
    .reserve = plm__cuda_reserve,
    .release = plm__cuda_release,
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
    .begin_graph = begin_graph,
    .end_graph = end_graph,
    .run_graph = run_graph,
    .drop_graph = drop_graph,
    .fence = fence,
    .overhead_bytes = overhead_bytes,
    .process_bytes = process_bytes,
    .available_bytes = available_bytes,
    .be_deterministic = be_deterministic,
    .has_copy_queue = true,
    .row_multiple = PLM_CUDA_ROW_MULTIPLE,
    .has_dtype = has_dtype,
};

static plm_status attribute(plm_cuda *cuda, CUdevice_attribute which, int32_t *value)
{
    PLM_CUDA_TRY(cuda, cuDeviceGetAttribute(value, which, cuda->number));
    return PLM_OK;
}

static plm_status find_device(plm_cuda *cuda, int32_t ordinal)
{
    int count = 0, major = 0, minor = 0;
    char *name = cuda->base.name;
    PLM_CUDA_TRY(cuda, cuDeviceGetCount(&count));
    PLM_FAIL_IF(ordinal < 0 || ordinal >= count, PLM_ERROR_UNSUPPORTED,
                "there is no GPU number %d: the driver sees %d", (int)ordinal, count);
    PLM_CUDA_TRY(cuda, cuDeviceGet(&cuda->number, ordinal));
    PLM_CUDA_TRY(cuda, cuDeviceGetName(name, PLM_GPU_NAME_TEXT, cuda->number));
    PLM_TRY(attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    PLM_TRY(attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    PLM_FAIL_IF(major < 8, PLM_ERROR_UNSUPPORTED,
                "the GPU is a %.80s of compute capability %d.%d; wanted Ampere or newer, 8.0", name,
                major, minor);
    PLM_TRY(attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &cuda->processors));
    return attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                     &cuda->shared_bytes);
}

static plm_status find_page(plm_cuda *cuda)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->number}};
    PLM_CUDA_TRY(cuda, cuMemGetAllocationGranularity(&cuda->page_bytes, &properties,
                                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    return PLM_OK;
}

/*
 * What comes later than opening: graphs, kernels of a library that it loads for a shape, a page for
 * the rounding of the arena. Seen on an H200: 4 MiB.
 */
#define LATER_BYTES ((size_t)32 << 20)

/*
 * What this process holds on the device now, with every kernel loaded, and what comes later. NVML
 * says it of the process; where it does not, the device's free memory before and after does, which
 * others may have changed meanwhile.
 */
static plm_status measure_overhead(plm_cuda *cuda, size_t free_before)
{
    size_t process = 0, free = 0, total = 0;
    plm_status status = plm__cuda_process_bytes(cuda, &process);
    if (status != PLM_OK || process == 0) {
        PLM_CUDA_TRY(cuda, cuMemGetInfo(&free, &total));
        process = free_before > free ? free_before - free : 0;
    }
    return plm__add_bytes(process, LATER_BYTES, &cuda->overhead_bytes);
}

static plm_status open_device(plm_cuda *cuda, const plm_cuda_wanted *wanted)
{
    size_t free = 0, total = 0;
    PLM_TRY(plm__cuda_driver_open(&cuda->driver));
    PLM_TRY(find_device(cuda, wanted->ordinal));
    PLM_CUDA_TRY(cuda, cuDevicePrimaryCtxRetain(&cuda->context, cuda->number));
    PLM_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
    PLM_CUDA_TRY(cuda, cuMemGetInfo(&free, &total));
    PLM_CUDA_TRY(cuda, cuStreamCreate(&cuda->stream, CU_STREAM_NON_BLOCKING));
    PLM_CUDA_TRY(cuda, cuStreamCreate(&cuda->copies, CU_STREAM_NON_BLOCKING));
    PLM_TRY(find_page(cuda));
    PLM_TRY(plm__cuda_kernels_load(cuda));
    PLM_TRY(plm__cuda_products_open(cuda));
    PLM_TRY(plm__cuda_graphs_open(cuda));
    return measure_overhead(cuda, free);
}

/* The one name that the module shows. */
__attribute__((visibility("default"))) plm_cuda_open plm__cuda_open;

plm_status plm__cuda_open(const plm_cuda_host *host, const plm_cuda_wanted *wanted,
                          plm_device **device)
{
    plm_cuda *cuda = NULL;
    plm__cuda_use_host(host);
    PLM_TRY(plm__host_alloc(sizeof *cuda, &cuda));
    cuda->base =
        (plm_device){.table = &cuda_table, .usage = {.cap_bytes = wanted->cap_bytes}, .threads = 1};
    plm_status status = open_device(cuda, wanted);
    if (status != PLM_OK) {
        destroy(&cuda->base);
        return status;
    }
    *device = &cuda->base;
    return PLM_OK;
}
