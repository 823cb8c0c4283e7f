/* SPDX-License-Identifier: MIT */
/*
 * Telling the address sanitizer about memory that is handed out in pieces: what belongs to nobody
 * is forbidden, and touching it ends the program with the place. Without the sanitizer both do
 * nothing. The sanitizer counts in steps of 8 bytes: a piece begins at a multiple of 8.
 */
#ifndef PLM_BASE_TRACK_H
#define PLM_BASE_TRACK_H

#if defined(__SANITIZE_ADDRESS__)
#define PLM_TRACK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLM_TRACK 1
#endif
#endif
#ifndef PLM_TRACK
#define PLM_TRACK 0 /* 1: the sanitizer is there */
#endif

#if PLM_TRACK
#include <sanitizer/asan_interface.h>
#define PLM_TRACK_FORBID(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define PLM_TRACK_ALLOW(address, bytes)  ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define PLM_TRACK_FORBID(address, bytes) ((void)(address), (void)(bytes))
#define PLM_TRACK_ALLOW(address, bytes)  ((void)(address), (void)(bytes))
#endif

#endif
