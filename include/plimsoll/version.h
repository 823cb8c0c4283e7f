/* SPDX-License-Identifier: MIT */
/* The version, by semantic versioning. The build reads it from here. */
#ifndef PLIMSOLL_VERSION_H
#define PLIMSOLL_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define PLM_VERSION "0.1.0"

/* The version of the library that runs, which may not be that of the header it was built with.
 * Static; thread-safe. */
const char *plm_version(void);

#ifdef __cplusplus
}
#endif
#endif
