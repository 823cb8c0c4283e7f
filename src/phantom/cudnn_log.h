/* SPDX-License-Identifier: MIT */
/*
 * What the real cuDNN's log says of an engine, as lines handed to a callback of cudnnSetCallback.
 * Nothing else of the log is read.
 */
#ifndef PLM_PHANTOM_CUDNN_LOG_H
#define PLM_PHANTOM_CUDNN_LOG_H

#include <stdbool.h>

/* The first engine that lines of the library's log, as below, tell as turned away; 0: none. */
int plm__cudnn_rejected_engine(const char *lines);

/* Whether lines of the library's log, each ended by a NUL and the last by two, tell that the engine
 * was turned away. */
bool plm__cudnn_tells_rejection(const char *lines, int engine);

#endif
