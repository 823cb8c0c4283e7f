/* SPDX-License-Identifier: MIT */
/*
 * Fused attention through cuDNN's graph interface, which is opened at run time: what is told to
 * cuDNN, cuda_attention_graph.c says. Making a plan takes tens of milliseconds and more, so a plan
 * is made once a shape and kept; only the pointers differ from layer to layer.
 *
 * dq is summed in fp32 by many blocks at once, in whichever order they come: two runs may differ in
 * the last bit. Where the same bits are wanted, or cuDNN cannot or should not, the kernels of
 * kernel/attention.cu run.
 */
#include "device/cuda/cuda_attention_graph.h"

#include <dlfcn.h>

#include "device/cuda/cuda_internal.h"

struct plm_cuda_graphs {
    plm_cudnn dnn;
    cudnnHandle_t handle;
    PLM_ARRAY(plm_attention_plan) plans;
};

/* A launch made ready: its plan and the pointers of its tensors. */
typedef struct prepared_attention {
    plm_cuda_prepared head;
    cudnnBackendDescriptor_t plan, pointers;
    plm_attention_values values;
} prepared_attention;

plm_status plm__cuda_graphs_open(plm_cuda *cuda)
{
    static const char *const names[] = {"libcudnn.so.9", NULL};
    plm_cuda_graphs *graphs = NULL;
    PLM_TRY(plm__host_alloc(sizeof *graphs, &graphs));
    cuda->graphs = graphs;
    plm_cudnn *dnn = &graphs->dnn;
    dnn->library = plm__cuda_library(names);
    PLM_FAIL_IF(!dnn->library, PLM_ERROR_UNSUPPORTED,
                "cuDNN was not found: wanted libcudnn.so.9; install Debian's libcudnn or pip's "
                "nvidia-cudnn, or put its folder on LD_LIBRARY_PATH");
    PLM_TRY(plm__cudnn_find(dnn));
    cudnnStatus_t result = dnn->cudnnCreate(&graphs->handle);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnSetStream(graphs->handle, (cudaStream_t)cuda->stream);
    PLM_FAIL_IF(result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE, "cuDNN refused to begin: %s",
                dnn->cudnnGetErrorString(result));
    return PLM_OK;
}

void plm__cuda_graphs_close(plm_cuda *cuda)
{
    plm_cuda_graphs *graphs = cuda->graphs;
    if (!graphs)
        return;
    for (int64_t i = 0; i < graphs->plans.count; i++)
        graphs->dnn.cudnnBackendDestroyDescriptor(graphs->plans.items[i].plan);
    PLM_ARRAY_FREE(&graphs->plans);
    if (graphs->handle)
        graphs->dnn.cudnnDestroy(graphs->handle);
    if (graphs->dnn.library)
        dlclose(graphs->dnn.library);
    plm__host_free(graphs);
}

bool plm__cuda_graphs_take(const plm_cuda *cuda, const plm_launch *launch)
{
    return plm__attention_is_planned(launch, cuda->deterministic, cuda->graphs->dnn.version);
}

static bool are_equal(const plm_attention_graph *a, const plm_attention_graph *b)
{
    return a->batch == b->batch && a->length == b->length && a->heads == b->heads &&
           a->size == b->size && a->dtype == b->dtype && a->causal == b->causal &&
           a->is_backward == b->is_backward;
}

static plm_status find_plan(plm_cuda_graphs *graphs, const plm_attention_graph *wanted,
                            plm_attention_plan *plan)
{
    for (int64_t i = 0; i < graphs->plans.count; i++) {
        if (are_equal(&graphs->plans.items[i].shape, wanted)) {
            *plan = graphs->plans.items[i];
            return PLM_OK;
        }
    }
    PLM_TRY(plm__attention_plan(&graphs->dnn, graphs->handle, wanted, plan));
    plm_status status = PLM_ARRAY_PUSH(&graphs->plans, *plan);
    if (status != PLM_OK)
        graphs->dnn.cudnnBackendDestroyDescriptor(plan->plan);
    return status;
}

void plm__cuda_graphs_forget(plm_cuda *cuda, void *prepared)
{
    prepared_attention *made = prepared;
    if (made && made->pointers)
        cuda->graphs->dnn.cudnnBackendDestroyDescriptor(made->pointers);
    plm__host_free(made);
}

plm_status plm__cuda_graphs_prepare(plm_cuda *cuda, const plm_launch *launch, void **prepared)
{
    plm_cuda_graphs *graphs = cuda->graphs;
    plm_attention_graph shape = plm__attention_graph_of(launch);
    plm_attention_plan plan;
    prepared_attention *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->head.forget = plm__cuda_graphs_forget;
    plm_status status = find_plan(graphs, &shape, &plan);
    if (status == PLM_OK)
        status = plm__attention_bind(&graphs->dnn, &plan, launch, &made->values, &made->pointers);
    if (status != PLM_OK) {
        plm__cuda_graphs_forget(cuda, made);
        return status;
    }
    made->plan = plan.plan;
    *prepared = made;
    return PLM_OK;
}

plm_status plm__cuda_graphs_launch(plm_cuda *cuda, const plm_launch *launch, void *prepared)
{
    const plm_cuda_graphs *graphs = cuda->graphs;
    const prepared_attention *made = prepared;
    (void)launch;
    cudnnStatus_t result =
        graphs->dnn.cudnnBackendExecute(graphs->handle, made->plan, made->pointers);
    PLM_FAIL_IF(result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE, "cuDNN refused attention: %s",
                graphs->dnn.cudnnGetErrorString(result));
    return PLM_OK;
}
