/* SPDX-License-Identifier: MIT */
/* What the program lent the module, as the module's files use it. */
#ifndef PLM_DEVICE_CUDA_CUDA_HOST_H
#define PLM_DEVICE_CUDA_CUDA_HOST_H

#include "device/cuda_module.h"

/* Called once, before anything else of the module. Borrowed for good. */
void plm__cuda_use_host(const plm_cuda_host *host);

PLM_MUST_USE plm_status plm__cuda_process_bytes_of(const char *bus_id, size_t *bytes);

#endif
