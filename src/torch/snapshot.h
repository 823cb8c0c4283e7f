/* SPDX-License-Identifier: MIT */
/* What PyTorch's other files may do with a snapshot beyond the public header. */
#ifndef PLM_TORCH_SNAPSHOT_H
#define PLM_TORCH_SNAPSHOT_H

#include "plimsoll/snapshot.h"

/* The trace of a device, by its index, to be completed. Borrowed. */
plm_trace *plm__snapshot_trace(plm_snapshot *snapshot, int64_t device);

/* The final segment of a device that holds this address; NULL. */
const plm_snapshot_segment *plm__snapshot_find_segment(const plm_snapshot_device *device,
                                                       uint64_t address);

#endif
