/* SPDX-License-Identifier: MIT */
/*
 * A device that is planned for and not here. It answers what a planner asks, from a profile and the
 * rows of kernels.def, and refuses everything that would need the device itself.
 */
#include <stdio.h>

#include "base/host.h"
#include "device/cpu/cpu.h"
#include "device/target/cuda_workspace.h"
#include "plimsoll/device_profile.h"

typedef struct target_device {
    plm_device base;
    plm_device_profile profile;
} target_device;

static void destroy(plm_device *device)
{
    plm__host_free(device);
}

static plm_status reserve(plm_device *device, size_t bytes, void **region)
{
    (void)bytes;
    (void)region;
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "wanted memory on %s, which is planned for and not here: its plans can be "
                    "told, not run",
                    ((const target_device *)device)->profile.name);
}

static plm_status available_bytes(plm_device *device, size_t *bytes)
{
    *bytes = ((const target_device *)device)->profile.memory_bytes;
    return PLM_OK;
}

static bool has_dtype(const plm_device *device, plm_dtype dtype)
{
    return ((const target_device *)device)->profile.product_flops[dtype] > 0;
}

/* A GPU has no way round a floating point type that its silicon lacks. */
static plm_status check_dtypes(const plm_device *device, const plm_operand *operands, int count)
{
    for (int i = 0; i < count; i++) {
        plm_dtype dtype = operands[i].dtype;
        bool real = dtype == PLM_DTYPE_BF16 || dtype == PLM_DTYPE_F16;
        PLM_FAIL_IF(operands[i].rank > 0 && real && !has_dtype(device, dtype),
                    PLM_ERROR_UNSUPPORTED, "%s does not run %s; it runs %s",
                    ((const target_device *)device)->profile.name, plm_dtype_text(dtype),
                    plm_dtype_text(plm_device_precision(device)));
    }
    return PLM_OK;
}

static plm_status workspace(plm_device *device, const plm_launch *launch, size_t *bytes)
{
    PLM_TRY(check_dtypes(device, launch->in, PLM_OP_INPUTS_MAX));
    PLM_TRY(check_dtypes(device, launch->out, PLM_OP_OUTPUTS_MAX));
    PLM_TRY(check_dtypes(device, launch->effect, PLM_OP_EFFECTS_MAX));
    return plm__cuda_workspace(launch, bytes);
}

static size_t overhead_bytes(plm_device *device)
{
    return ((const target_device *)device)->profile.overhead_bytes;
}

/* What needs memory of the device is not there: nobody gets any. */
static const plm_device_table target_table = {
    .kind = "target",
    .destroy = destroy,
    .reserve = reserve,
    .workspace = workspace,
    .overhead_bytes = overhead_bytes,
    .available_bytes = available_bytes,
    .has_copy_queue = true,
    .row_multiple = PLM_CUDA_ROW_MULTIPLE,
    .has_dtype = has_dtype,
};

static plm_status create_cpu(const plm_device_profile *profile, plm_device **device)
{
    PLM_TRY(plm__cpu_create(profile->threads, 0, device));
    plm_device_use_profile(*device, profile);
    return PLM_OK;
}

plm_status plm_device_create_target(const plm_device_profile *profile, plm_device **device)
{
    target_device *made = NULL;
    if (profile->kind == PLM_DEVICE_CPU)
        return create_cpu(profile, device);
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->profile = *profile;
    made->base = (plm_device){.table = &target_table,
                              .usage = {.cap_bytes = profile->memory_bytes},
                              .threads = 1,
                              .profile = &made->profile};
    *device = &made->base;
    return PLM_OK;
}
