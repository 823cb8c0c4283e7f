/* SPDX-License-Identifier: MIT */
/*
 * Asking the loader for what other libraries define. glibc 2.34 gave dlopen and dlsym new versions;
 * the old ones are named here, which every glibc from 2.28 on still has, so that a library built on
 * a new system loads on an old one. Include this in place of <dlfcn.h>.
 */
#ifndef PLM_PHANTOM_LOADER_H
#define PLM_PHANTOM_LOADER_H

#include <dlfcn.h>

__asm__(".symver dlopen, dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror, dlerror@GLIBC_2.2.5");

#endif
