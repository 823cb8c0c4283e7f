/* SPDX-License-Identifier: MIT */
/*
 * A library with the name of a CUDA runtime and nothing in it but its version. The stand-in tells
 * CUDA 12 from 13 by which of the two is loaded, so a test loads this one: cmake/phantom.cmake
 * builds it as libcudart.so.12 and as libcudart.so.13.
 */
int cudaRuntimeGetVersion(int *version);

int cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return 0;
}
