/* SPDX-License-Identifier: MIT */
/*
 * NVML, the driver's library for looking at GPUs, opened at run time: nothing of it is needed to
 * build, and a machine without it is one of the answers. What NVML says of processes depends on
 * where one stands: in a container of another process namespace the list can be empty.
 */
#ifndef PLM_NVML_NVML_H
#define PLM_NVML_NVML_H

#include "base/host.h"

typedef struct plm_nvml plm_nvml;

/* *nvml = the library, begun; owned by the caller. PLM_ERROR_UNSUPPORTED where it is missing or
 * refuses. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__nvml_open(plm_nvml **nvml);

/* NULL is allowed. */
void plm__nvml_close(plm_nvml *nvml);

/*
 * *bytes = what process `pid` (0: this one) holds on the GPU with that PCI bus id, context and
 * libraries included. PLM_ERROR_UNSUPPORTED where NVML does not list the process: in a container,
 * or on a partitioned GPU.
 */
PLM_MUST_USE plm_status plm__nvml_process_bytes(plm_nvml *nvml, const char *bus_id, int64_t pid,
                                                size_t *bytes);

#endif
