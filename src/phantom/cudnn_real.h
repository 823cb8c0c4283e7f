/* SPDX-License-Identifier: MIT */
/*
 * The real cuDNN: the libcudnn.so.9 that the process brought (PyTorch's wheel), which needs no GPU
 * to describe graphs and to list engines once a device has been described to it. Found at the first
 * call; any thread.
 *
 *     const struct plm_cudnn_real *real = plm__cudnn_real();
 *     real->create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
 */
#ifndef PLM_PHANTOM_CUDNN_REAL_H
#define PLM_PHANTOM_CUDNN_REAL_H

#include "phantom/cudnn_abi.h"

struct plm_cudnn_real {
    int (*create)(int type, plm_cudnn_descriptor *descriptor);
    int (*destroy)(plm_cudnn_descriptor descriptor);
    int (*finalize)(plm_cudnn_descriptor descriptor);
    int (*set)(plm_cudnn_descriptor descriptor, int name, int type, int64_t count, const void *v);
    int (*get)(plm_cudnn_descriptor descriptor, int name, int type, int64_t room, int64_t *count,
               void *v);
    size_t version;              /* 91900 is 9.19.0 */
    plm_cudnn_descriptor device; /* the device described; NULL: this cuDNN cannot be told of one */
};

/* Borrowed. A process without libcudnn.so.9 is stopped by one line. */
const struct plm_cudnn_real *plm__cudnn_real(void);

/* The real library's function of that name; without one the process is stopped by one line. */
void *plm__cudnn_function(const char *name);

#endif
