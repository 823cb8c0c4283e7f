/* SPDX-License-Identifier: MIT */
/*
 * As much of cuDNN 9's graph interface as the CUDA device's attention calls, for tests without a
 * card, where the real library cannot make a plan. Graphs are not looked into, and nothing runs;
 * but a descriptor that is used before it was finalized, or a plan that lacks something, is refused
 * as the real library does.
 *
 * Three configurations are offered for every graph: one that becomes no plan, one whose workspace
 * is a byte more than the module has beside its sums, and one that has just that room. A plan runs
 * only where it is the last.
 */
#include <cudnn_graph.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_BYTES = 256, VERSION = 91900, CONFIGS = 3 };

typedef struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool is_final, has_handle, has_config;
    int64_t workspace_bytes; /* of a configuration and its plan; negative: no plan comes of it */
} descriptor;

static const int64_t offered_bytes[CONFIGS] = {-1, ROOM_BYTES + 1, ROOM_BYTES};
static char the_handle[1];

size_t fake_cudnnGetVersion(void);
const char *fake_cudnnGetErrorString(cudnnStatus_t status);
cudnnStatus_t fake_cudnnCreate(void **handle);
cudnnStatus_t fake_cudnnDestroy(void *handle);
cudnnStatus_t fake_cudnnSetStream(void *handle, void *stream);
cudnnStatus_t fake_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                descriptor **made);
cudnnStatus_t fake_cudnnBackendDestroyDescriptor(descriptor *d);
cudnnStatus_t fake_cudnnBackendSetAttribute(descriptor *d, cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type, int64_t count,
                                            const void *values);
cudnnStatus_t fake_cudnnBackendGetAttribute(const descriptor *d, cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type, int64_t room,
                                            int64_t *count, void *values);
cudnnStatus_t fake_cudnnBackendFinalize(descriptor *d);
cudnnStatus_t fake_cudnnBackendExecute(void *handle, const descriptor *plan,
                                       const descriptor *pack);

size_t fake_cudnnGetVersion(void)
{
    return VERSION;
}

const char *fake_cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_OTHER";
}

cudnnStatus_t fake_cudnnCreate(void **handle)
{
    *handle = the_handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnDestroy(void *handle)
{
    return handle == the_handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t fake_cudnnSetStream(void *handle, void *stream)
{
    return handle == the_handle && stream ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t fake_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                descriptor **made)
{
    descriptor *d = calloc(1, sizeof *d);
    if (!d)
        return CUDNN_STATUS_INTERNAL_ERROR;
    d->type = type;
    *made = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnBackendDestroyDescriptor(descriptor *d)
{
    if (!d)
        return CUDNN_STATUS_BAD_PARAM;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnBackendSetAttribute(descriptor *d, cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type, int64_t count,
                                            const void *values)
{
    if (!d || d->is_final || !values || count < 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (type == CUDNN_TYPE_HANDLE)
        d->has_handle = *(void *const *)values == the_handle;
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < count; i++)
        if (!((const descriptor *const *)values)[i]->is_final)
            return CUDNN_STATUS_BAD_PARAM;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        d->has_config = true;
        d->workspace_bytes = (*(const descriptor *const *)values)->workspace_bytes;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnBackendGetAttribute(const descriptor *d, cudnnBackendAttributeName_t name,
                                            cudnnBackendAttributeType_t type, int64_t room,
                                            int64_t *count, void *values)
{
    (void)type;
    if (!d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *count = 1;
        memcpy(values, &d->workspace_bytes, sizeof d->workspace_bytes);
        return CUDNN_STATUS_SUCCESS;
    }
    if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return CUDNN_STATUS_NOT_SUPPORTED;
    *count = room < CONFIGS ? room : CONFIGS;
    for (int64_t i = 0; i < *count; i++) {
        ((descriptor **)values)[i]->is_final = true;
        ((descriptor **)values)[i]->workspace_bytes = offered_bytes[i];
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnBackendFinalize(descriptor *d)
{
    if (!d || d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && !(d->has_handle && d->has_config))
        return CUDNN_STATUS_BAD_PARAM;
    if (d->workspace_bytes < 0)
        return CUDNN_STATUS_NOT_SUPPORTED;
    d->is_final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fake_cudnnBackendExecute(void *handle, const descriptor *plan, const descriptor *pack)
{
    bool good = handle == the_handle && plan->is_final && pack->is_final &&
                plan->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
                pack->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
                plan->workspace_bytes == ROOM_BYTES;
    return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
