/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's settings string, as PYTORCH_ALLOC_CONF and its older names PYTORCH_CUDA_ALLOC_CONF and
 * PYTORCH_HIP_ALLOC_CONF carry it, and as a snapshot repeats it:
 *
 *     expandable_segments:True,max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]
 *
 * Items `key:value` are parted by commas, spaces mean nothing, booleans are True and False, and an
 * unknown key is an error. Thread-safe.
 */
#ifndef PLM_TORCH_ALLOC_CONF_H
#define PLM_TORCH_ALLOC_CONF_H

#include "base/text.h"
#include "pool/settings.h"

/*
 * Reads a settings string into *settings, which holds what was set before, or the defaults: as in
 * PyTorch, max_split_size_mb, roundup_power2_divisions and garbage_collection_threshold go back to
 * their defaults when the string does not name them, everything else stays. PLM_ERROR_FORMAT, or
 * PLM_ERROR_ARGUMENT for a value outside its range, names the key at fault; *settings is then as it
 * was.
 */
PLM_MUST_USE plm_status plm__torch_settings_parse(const char *text, plm_pool_settings *settings);

/*
 * Appends the shortest string that gives these settings from the defaults: keys in a fixed order,
 * those at their default left out, "" for the defaults.
 */
void plm__torch_settings_print(const plm_pool_settings *settings, plm_text *text);

#endif
