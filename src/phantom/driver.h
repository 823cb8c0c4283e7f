/* SPDX-License-Identifier: MIT */
/* The driver's functions by name, for the runtime's entry points. */
#ifndef PLM_PHANTOM_DRIVER_H
#define PLM_PHANTOM_DRIVER_H

/* The newest form of the function (cuMemAlloc is cuMemAlloc_v2), or NULL. */
void *plm__driver_find(const char *name);

#endif
