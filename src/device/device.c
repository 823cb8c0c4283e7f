/* SPDX-License-Identifier: MIT */
/* What every kind of device shares. */
#include "device/device.h"

void plm_device_destroy(plm_device *device)
{
    if (device)
        device->table->destroy(device);
}
