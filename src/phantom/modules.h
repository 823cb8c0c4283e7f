/* SPDX-License-Identifier: MIT */
/*
 * What a kernel of a module takes, for those who are asked about it (kernels.c). Takes the
 * process's lock itself.
 */
#ifndef PLM_PHANTOM_MODULES_H
#define PLM_PHANTOM_MODULES_H

#include "phantom/cubin.h"

#include <stdbool.h>

/* *use = what the function that cuModuleGetFunction gave takes; false, and *use untouched, where
 * its module's code is not known. */
bool plm__module_use(const void *function, struct plm_kernel_use *use);

#endif
