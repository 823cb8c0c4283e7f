/* SPDX-License-Identifier: MIT */
/* What every device kind answers the same way. */
#include "device/device.h"

void plm_device_destroy(plm_device *device)
{
    if (device)
        device->table->destroy(device);
}

plm_device_usage plm_device_usage_of(const plm_device *device)
{
    return device->usage;
}

size_t plm_device_overhead(plm_device *device)
{
    return device->table->overhead_bytes(device);
}

bool plm_device_has(const plm_device *device, plm_dtype dtype)
{
    return (unsigned)dtype < PLM_DTYPE_COUNT && device->table->has_dtype(device, dtype);
}

plm_dtype plm_device_precision(const plm_device *device)
{
    return plm_device_has(device, PLM_DTYPE_BF16)  ? PLM_DTYPE_BF16
           : plm_device_has(device, PLM_DTYPE_F16) ? PLM_DTYPE_F16
                                                   : PLM_DTYPE_F32;
}
