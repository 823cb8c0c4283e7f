/* SPDX-License-Identifier: MIT */
/*
 * Attention as cuDNN's graph interface wants it told, what cuDNN offers for it, and the plan that
 * is taken. Up to the plan nothing needs a GPU: cuDNN says what it would run, and with how much
 * workspace, on a GPU that is described to it, which tests/gpu/test_attention_plans.c asks.
 *
 *     plm_cudnn dnn = {.library = ...};
 *     plm__cudnn_find(&dnn);
 *     plm_attention_graph shape = plm__attention_graph_of(launch);
 *     plm__attention_plan(&dnn, handle, &shape, &plan);
 *     plm__attention_bind(&dnn, &plan, launch, &values, &pointers);
 *     dnn.cudnnBackendExecute(handle, plan.plan, pointers);
 */
#ifndef PLM_DEVICE_CUDA_CUDA_ATTENTION_GRAPH_H
#define PLM_DEVICE_CUDA_CUDA_ATTENTION_GRAPH_H

#include <cudnn_graph.h>

#include "base/array.h"
#include "device/device.h"

#define PLM_CUDNN_CALLS(ROW)                                                                       \
    ROW(cudnnCreate)                                                                               \
    ROW(cudnnDestroy)                                                                              \
    ROW(cudnnSetStream)                                                                            \
    ROW(cudnnGetVersion)                                                                           \
    ROW(cudnnGetErrorString)                                                                       \
    ROW(cudnnBackendCreateDescriptor)                                                              \
    ROW(cudnnBackendDestroyDescriptor)                                                             \
    ROW(cudnnBackendSetAttribute)                                                                  \
    ROW(cudnnBackendGetAttribute)                                                                  \
    ROW(cudnnBackendFinalize)                                                                      \
    ROW(cudnnBackendExecute)

/* cuDNN as it was opened. */
typedef struct plm_cudnn {
    void *library; /* dlopen's */
    size_t version;
#define PLM_CUDNN_FIELD(name) __typeof__(name) *name;
    PLM_CUDNN_CALLS(PLM_CUDNN_FIELD)
#undef PLM_CUDNN_FIELD
} plm_cudnn;

/* Finds every function in dnn->library, and the version. PLM_ERROR_UNSUPPORTED without one. */
PLM_MUST_USE plm_status plm__cudnn_find(plm_cudnn *dnn);

/* All that a plan depends on but the GPU. */
typedef struct plm_attention_graph {
    int64_t batch, length, heads, size;
    plm_dtype dtype;
    bool causal, is_backward;
} plm_attention_graph;

/*
 * Where the backward sums dq in fp32. Kernels of Hopper and of Blackwell's data centres add to a
 * tensor that they are given; older and smaller ones have room of their own in cuDNN's workspace,
 * and the tensor, given to them too, would be memory twice. The forward has no such sums and is
 * planned as the first.
 */
typedef enum plm_attention_sums {
    PLM_ATTENTION_SUMS_GIVEN,
    PLM_ATTENTION_SUMS_INSIDE,
    PLM_ATTENTION_SUMS_COUNT
} plm_attention_sums;

typedef struct plm_attention_plan {
    plm_attention_graph shape;
    plm_attention_sums sums;
    cudnnBackendDescriptor_t plan;
} plm_attention_plan;

enum { PLM_ATTENTION_OFFERS_MAX = 8 };

/* What cuDNN's heuristics offer for one graph, the best first. */
typedef struct plm_attention_offers {
    cudnnBackendDescriptor_t configs[PLM_ATTENTION_OFFERS_MAX];
    int64_t count;
    cudnnStatus_t result; /* the first refusal; there are no offers then */
    PLM_ARRAY(cudnnBackendDescriptor_t) all;
} plm_attention_offers;

/* For whom: the handle of a card, or a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR of one that is not here;
 * the other is NULL. */
typedef struct plm_attention_card {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t described;
} plm_attention_card;

/* The scalars of a graph, by value; they live as long as what is bound to them. */
typedef struct plm_attention_values {
    float scale, minus_inf, one;
} plm_attention_values;

/* Whether cuDNN runs a launch: a pure function of shape, types, version and what was asked. */
bool plm__attention_is_planned(const plm_launch *launch, bool deterministic, size_t version);

plm_attention_graph plm__attention_graph_of(const plm_launch *launch);

/* *bytes = the most that a plan's workspace may be, within that of the launch. PLM_ERROR_OVERFLOW.
 */
PLM_MUST_USE plm_status plm__attention_room(const plm_attention_graph *shape,
                                            plm_attention_sums sums, size_t *bytes);

/* Describes the graph and asks for offers, which _forget ends, after a failure too. Only host
 * memory fails; a refusal of cuDNN's is offers->result. */
PLM_MUST_USE plm_status plm__attention_ask(const plm_cudnn *dnn, const plm_attention_graph *shape,
                                           plm_attention_sums sums, plm_attention_card card,
                                           plm_attention_offers *offers);
void plm__attention_forget_offers(const plm_cudnn *dnn, plm_attention_offers *offers);

/* The first offer that becomes a plan within the room. _plan_as holds to one place of the sums;
 * _plan takes whichever has a plan. PLM_ERROR_UNSUPPORTED where none does. */
PLM_MUST_USE plm_status plm__attention_plan_as(const plm_cudnn *dnn, cudnnHandle_t handle,
                                               const plm_attention_graph *shape,
                                               plm_attention_sums sums, plm_attention_plan *plan);
PLM_MUST_USE plm_status plm__attention_plan(const plm_cudnn *dnn, cudnnHandle_t handle,
                                            const plm_attention_graph *shape,
                                            plm_attention_plan *plan);

/* *pointers = a variant pack of the launch's tensors, to be destroyed with cuDNN's own call; values
 * are set. */
PLM_MUST_USE plm_status plm__attention_bind(const plm_cudnn *dnn, const plm_attention_plan *plan,
                                            const plm_launch *launch, plm_attention_values *values,
                                            cudnnBackendDescriptor_t *pointers);

#endif
