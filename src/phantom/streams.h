/* SPDX-License-Identifier: MIT */
/*
 * Streams, events and what is being captured into a graph. Nothing runs, so everything is done at
 * once; what streams must keep is whether they are being captured, and into which capture, because
 * PyTorch's allocator gives a capture a pool of its own.
 */
#ifndef PLM_PHANTOM_STREAMS_H
#define PLM_PHANTOM_STREAMS_H

#include <stdint.h>

/* The capture that the stream is part of; 0 for none. Ids count from 1 and are never used twice. */
uint64_t plm__streams_capture(const void *stream);

#endif
