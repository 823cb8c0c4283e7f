/* SPDX-License-Identifier: MIT */
/*
 * Which machine code of a kernel the device would run. Libraries bring their kernels for several
 * architectures, in "fat binaries" that they register as they are loaded; cudaFuncGetAttributes
 * tells the one chosen, and PyTorch's attention refuses to run when that is not what it expects:
 * an L4 is 8.9, and runs the code for 8.6.
 */
#ifndef PLM_PHANTOM_CODE_H
#define PLM_PHANTOM_CODE_H

#include "phantom/cubin.h"

#include <stdbool.h>
#include <stddef.h>

/* 86 for sm_86: the newest machine code of the kernel's module that the device runs; the device's
 * own capability where the module has none or is not known. */
int plm__code_version(const void *function);

/* *use = what that code says the kernel takes; false, and *use untouched, where the module has no
 * machine code that can be read (it may be compressed) or is not known. */
bool plm__code_use(const void *function, struct plm_kernel_use *use);

/* What a device loads of a fat binary. */
struct plm_code {
    int architecture;           /* 86 is sm_86; 0: none of machine code */
    const unsigned char *image; /* within the binary; NULL where architecture is 0 */
    size_t image_bytes;
    bool has_text; /* PTX that the driver could translate for the device */
};

/* Whether the memory begins as a fat binary does; if so *code = what the device runs of it. */
bool plm__code_choose(const void *binary, struct plm_code *code);

#endif
