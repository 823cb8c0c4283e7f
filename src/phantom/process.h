/* SPDX-License-Identifier: MIT */
/*
 * What the process as a whole has: one lock over all tables of the stand-in, handles, the CUDA that
 * was loaded, and each thread's current device.
 *
 * The lock is taken around fork too, so that the child of a process with many threads (a worker of
 * a DataLoader) never inherits it held. It is never held while code of others runs.
 */
#ifndef PLM_PHANTOM_PROCESS_H
#define PLM_PHANTOM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

void plm__phantom_lock(void);
void plm__phantom_unlock(void);

/* A handle that no other call gets: what a stream, an event or a descriptor is known by. Nothing
 * lies at that address. */
void *plm__phantom_handle(void);

/* 12 or 13: the major version of the CUDA runtime that the process has loaded. It decides the
 * layout of three structures and what some names mean. 13 where there is none. */
int plm__phantom_cuda(void);

/* What cudaRuntimeGetVersion says of that runtime, such as 12040. */
int plm__phantom_runtime_version(void);

/* A function of the real library of that name, if the process has loaded it; else NULL. For what
 * needs no device: versions. */
void *plm__phantom_real(const char *library, const char *name);

/* The calling thread's device, 0 at first. Selecting a device that is not there gives false. */
int plm__phantom_current(void);
bool plm__phantom_select(int device);

/* The number that the hexadecimal digits at `text` make, at most two of them; -1 where none is. */
int plm__phantom_hex(const char *text);

/* The device with that PCI address, "0000:01:00.0": the bus is its number + 1; -1 for none. */
int plm__phantom_bus_device(const char *address);

/* Zeros for a table of at most `bytes`: address space that takes memory page by page, as the table
 * grows. It is never given back. */
void *plm__phantom_table(size_t bytes);

#endif
