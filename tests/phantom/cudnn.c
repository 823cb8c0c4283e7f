/* SPDX-License-Identifier: MIT */
/*
 * A library with the name of cuDNN 9.1 for the tests of the stand-in: it cannot be told of a
 * device, and its size functions behave as the real one's do with a handle of zeros. Descriptors
 * are words that hold their type. What it was asked to finalize and execute is counted.
 */
#include "phantom/phantom.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    DEVICEPROP = 38,
    BAD_PARAM = 2000,
    CUDA_FAILED = 5003,
    HANDLE = 0,
    PLAN = 5,
    WORKSPACE = 303
};

PLM_PHANTOM_EXPORT int fake_finalized, fake_plans_finalized, fake_handles_seen, fake_restored;

PLM_STANDIN(size_t, cudnnGetVersion, (void))
{
    return 90100;
}

PLM_STANDIN(int, cudnnBackendCreateDescriptor, (int type, void **descriptor))
{
    if (type == DEVICEPROP)
        return BAD_PARAM;
    int *made = calloc(4, sizeof *made); /* 16 bytes, as malloc aligns */
    *made = type;
    *descriptor = made;
    return 0;
}

PLM_STANDIN(int, cudnnBackendDestroyDescriptor, (void *descriptor))
{
    free(descriptor);
    return 0;
}

PLM_STANDIN(int, cudnnBackendFinalize, (void *descriptor))
{
    fake_finalized++;
    fake_plans_finalized += *(int *)descriptor == PLAN;
    return 0;
}

PLM_STANDIN(int, cudnnBackendSetAttribute,
            (void *descriptor, int name, int type, int64_t count, const void *value))
{
    (void)descriptor, (void)name, (void)count, (void)value;
    fake_handles_seen += type == HANDLE;
    return 0;
}

PLM_STANDIN(int, cudnnBackendGetAttribute,
            (void *descriptor, int name, int type, int64_t room, int64_t *count, void *value))
{
    (void)descriptor, (void)type, (void)room;
    if (name != WORKSPACE)
        return BAD_PARAM;
    *count = 1;
    *(int64_t *)value = 4096;
    return 0;
}

/* Writes, then finds no device. */
PLM_STANDIN(int, cudnnGetRNNTempSpaceSizes,
            (void *handle, void *rnn, int mode, void *data, size_t *work, size_t *reserve))
{
    (void)handle, (void)rnn, (void)mode, (void)data;
    *work = 298844928;
    if (mode)
        *reserve = 370147584;
    return CUDA_FAILED;
}

/* Fails before it writes. */
PLM_STANDIN(int, cudnnGetRNNWeightSpaceSize, (void *handle, void *rnn, size_t *bytes))
{
    (void)handle, (void)rnn, (void)bytes;
    return CUDA_FAILED;
}

PLM_STANDIN(int, cudnnRestoreDropoutDescriptor,
            (void *dropout, void *handle, float rate, void *states, size_t bytes,
             unsigned long long seed))
{
    (void)dropout, (void)handle, (void)states, (void)seed;
    fake_restored += rate == 0.5f && bytes == 6488064;
    return 0;
}
