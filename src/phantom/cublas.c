/* SPDX-License-Identifier: MIT */
/*
 * cuBLAS and cuBLASLt. Products are not computed. PyTorch takes a workspace for each handle and
 * stream by its own rule, whatever cuBLAS says; of cuBLASLt it wants one way to do a product, and
 * gets one that needs no workspace.
 */
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>

enum { CUBLAS_OK = 0, CUBLAS_NOT_SUPPORTED = 15 };

/* cublasLtMatmulHeuristicResult_t: 96 bytes in CUDA 12 and 13. */
struct heuristic_result {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

_Static_assert(sizeof(struct heuristic_result) == 96, "as both toolkits have it");

PLM_STANDIN(int, cublasLtMatmulAlgoGetHeuristic,
            (void *handle, void *product, void *a, void *b, void *c, void *d, void *preference,
             int room, struct heuristic_result *results, int *count))
{
    *count = room > 0;
    if (room > 0)
        memset(results, 0, sizeof *results);
    return room > 0 ? CUBLAS_OK : CUBLAS_NOT_SUPPORTED;
}

/* What the real library says of itself: scripts and PyTorch choose by it. */
PLM_STANDIN(size_t, cublasLtGetVersion, (void))
{
    int major = plm__phantom_cuda();
    size_t (*ask)(void);
    *(void **)(void *)&ask = plm__phantom_real(
        major == 12 ? "libcublasLt.so.12" : "libcublasLt.so.13", "cublasLtGetVersion");
    return ask ? ask() : (size_t)major * 10000;
}

PLM_STANDIN(int, cublasGetVersion_v2, (void *handle, int *version))
{
    *version = (int)cublasLtGetVersion();
    return CUBLAS_OK;
}

PLM_STANDIN(const char *, cublasGetStatusString, (int status))
{
    return status ? "not answered by plimsoll's stand-in for cuBLAS" : "success";
}

PLM_STANDIN(const char *, cublasGetStatusName, (int status))
{
    return status ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS";
}
