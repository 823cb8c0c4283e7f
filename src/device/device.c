/* SPDX-License-Identifier: MIT */
/* What every device kind answers the same way. */
#include "device/device.h"

void plm_device_destroy(plm_device *device)
{
    if (device)
        device->table->destroy(device);
}

size_t plm__device_limit(plm_device *device, size_t cap_bytes)
{
    size_t before = device->usage.cap_bytes;
    device->usage.cap_bytes = cap_bytes;
    device->usage.peak_bytes = device->usage.live_bytes;
    return before;
}

bool plm__device_has(const plm_device *device, plm_dtype dtype)
{
    return (unsigned)dtype < PLM_DTYPE_COUNT && device->table->has_dtype(device, dtype);
}

plm_dtype plm_device_precision(const plm_device *device)
{
    return plm__device_has(device, PLM_DTYPE_BF16)  ? PLM_DTYPE_BF16
           : plm__device_has(device, PLM_DTYPE_F16) ? PLM_DTYPE_F16
                                                    : PLM_DTYPE_F32;
}

void plm_device_be_deterministic(plm_device *device, bool wanted)
{
    if (device->table->be_deterministic)
        device->table->be_deterministic(device, wanted);
}
