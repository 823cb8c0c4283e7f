/* SPDX-License-Identifier: MIT */
/*
 * What a file of machine code (a cubin) says of its kernels: their names, and what each takes of a
 * multiprocessor. Nothing outside the image is ever read, whatever stands in it; functions of no
 * state, any thread.
 */
#ifndef PLM_PHANTOM_CUBIN_H
#define PLM_PHANTOM_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

/* A part of what the caller has in memory. */
struct plm_image {
    const unsigned char *at;
    size_t bytes;
};

/* What one block, or one thread, of a kernel takes. */
struct plm_kernel_use {
    int registers;         /* a thread; 0: the image does not say */
    int max_threads;       /* a block, by __launch_bounds__; 0: not bounded */
    size_t shared_bytes;   /* a block, static */
    size_t local_bytes;    /* a thread: stack and spills */
    size_t constant_bytes; /* __constant__ variables of the module */
};

/* Whether the image begins as a cubin does: it is an ELF file. */
bool plm__cubin_is(struct plm_image image);

/* How far a cubin at `image` reaches that came without its size, by its own account; what is not
 * mapped into the process ends it. 0 bytes where there is none. */
struct plm_image plm__cubin_at(const void *image);

/* The name of the kernel as it stands in the image, and *use = what the kernel takes; NULL, and
 * *use untouched, where the image has no such kernel. */
const char *plm__cubin_find(struct plm_image image, const char *name, struct plm_kernel_use *use);

#endif
