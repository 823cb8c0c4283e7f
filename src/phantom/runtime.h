/* SPDX-License-Identifier: MIT */
/* What the files of the CUDA runtime's stand-in share with the driver's. */
#ifndef PLM_PHANTOM_RUNTIME_H
#define PLM_PHANTOM_RUNTIME_H

/* Keeps a status that is no success as the thread's last error, and returns it. */
int plm__runtime_status(int status);

/* The value of an attribute of `device`, by the number that cudaDeviceAttr and CUdevice_attribute
 * share; 0 for one that has no row. */
int plm__runtime_attribute(int attribute, int device);

/* "cudaErrorMemoryAllocation" and "out of memory"; the driver has the same numbers. */
const char *plm__runtime_error_name(int status);
const char *plm__runtime_error_text(int status);

#endif
