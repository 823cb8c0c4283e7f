/* SPDX-License-Identifier: MIT */
/* As much of YAML as `accelerate config` writes: keys with words, numbers, true, false and null,
 * and one level of such keys below a key. */
#ifndef PLM_FIT_YAML_H
#define PLM_FIT_YAML_H

#include "base/json.h"

/* *root becomes the document as an object, to be given to json_decref. PLM_ERROR_FORMAT names the
 * line that is of another form; at most PLM_JSON_SMALL_MAX bytes. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__yaml_read(const char *what, const void *bytes, size_t byte_count,
                                       json_t **root);

#endif
