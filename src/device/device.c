/* SPDX-License-Identifier: MIT */
/* What every device kind answers the same way. */
#include "device/device.h"

void plm_device_destroy(plm_device *device)
{
    if (device)
        device->table->destroy(device);
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
