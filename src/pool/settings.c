/* SPDX-License-Identifier: MIT */
/* Defaults, ranges, and the rounding of requests. */
#include "pool/settings.h"

plm_pool_settings plm__pool_settings_default(void)
{
    return (plm_pool_settings){
        .backend = PLM_POOL_BACKEND_NATIVE,
        .max_split_bytes = SIZE_MAX,
        .max_non_split_bytes = PLM_POOL_SEGMENT_BYTES,
        .large_segment_bytes = PLM_POOL_SEGMENT_BYTES,
        .pinned_register_threads = 1,
    };
}

static bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static bool is_page_multiple(size_t bytes)
{
    return bytes % PLM_POOL_PAGE_BYTES == 0;
}

plm_status plm__pool_settings_check(const plm_pool_settings *settings)
{
    PLM_FAIL_IF(settings->max_split_bytes < PLM_POOL_SEGMENT_BYTES, PLM_ERROR_ARGUMENT,
                "max_split_size_mb must be at least 20");
    PLM_FAIL_IF(settings->max_non_split_bytes < PLM_POOL_SEGMENT_BYTES, PLM_ERROR_ARGUMENT,
                "max_non_split_rounding_mb must be at least 20");
    PLM_FAIL_IF(settings->large_segment_bytes <= PLM_POOL_MEDIUM_BYTES ||
                    settings->large_segment_bytes % PLM_POOL_SMALL_BYTES != 0,
                PLM_ERROR_ARGUMENT, "large_segment_size_mb must be more than 10");
    PLM_FAIL_IF(!is_page_multiple(settings->expandable_page_bytes), PLM_ERROR_ARGUMENT,
                "expandable_segments_page_size must be a multiple of 2097152");
    PLM_FAIL_IF(!(settings->garbage_threshold >= 0.0 && settings->garbage_threshold < 1.0),
                PLM_ERROR_ARGUMENT, "garbage_collection_threshold must lie between 0 and 1");
    PLM_FAIL_IF(!(settings->memory_fraction >= 0.0 && settings->memory_fraction <= 1.0),
                PLM_ERROR_ARGUMENT, "per_process_memory_fraction must lie between 0 and 1");
    PLM_FAIL_IF(!is_power_of_two(settings->pinned_register_threads) ||
                    settings->pinned_register_threads > 128,
                PLM_ERROR_ARGUMENT,
                "pinned_num_register_threads must be a power of two, at most 128");
    for (int i = 0; i < PLM_POOL_INTERVALS; i++)
        PLM_FAIL_IF(settings->divisions[i] != 0 && !is_power_of_two(settings->divisions[i]),
                    PLM_ERROR_ARGUMENT, "roundup_power2_divisions must be powers of two or 0");
    return PLM_OK;
}

static int floor_log2(size_t value)
{
    return 63 - __builtin_clzll(value);
}

static size_t divisions_of(const plm_pool_settings *settings, size_t bytes)
{
    int interval = floor_log2(bytes) - floor_log2(PLM_POOL_SMALL_BYTES);
    if (interval < 0)
        interval = 0;
    if (interval >= PLM_POOL_INTERVALS)
        interval = PLM_POOL_INTERVALS - 1;
    return settings->divisions[interval];
}

size_t plm__pool_round_bytes(const plm_pool_settings *settings, size_t bytes)
{
    PLM_ASSERT(bytes < PLM_POOL_LARGEST_BYTES);
    if (bytes < PLM_POOL_BLOCK_BYTES)
        return PLM_POOL_BLOCK_BYTES;
    size_t divisions = divisions_of(settings, bytes);
    size_t step = PLM_POOL_BLOCK_BYTES;
    /* Between two powers of two lie `divisions` steps. */
    if (divisions > 1 && bytes > PLM_POOL_BLOCK_BYTES * divisions)
        step = ((size_t)1 << floor_log2(bytes)) >> floor_log2(divisions);
    return (bytes + step - 1) & ~(step - 1);
}

size_t plm__pool_segment_bytes(const plm_pool_settings *settings, size_t rounded)
{
    if (rounded <= PLM_POOL_SMALL_BYTES)
        return PLM_POOL_PAGE_BYTES;
    if (rounded < PLM_POOL_MEDIUM_BYTES)
        return settings->large_segment_bytes;
    return (rounded + PLM_POOL_PAGE_BYTES - 1) & ~(PLM_POOL_PAGE_BYTES - 1);
}

size_t plm__pool_page_bytes(const plm_pool_settings *settings, bool is_small)
{
    if (is_small)
        return PLM_POOL_PAGE_BYTES;
    return settings->expandable_page_bytes ? settings->expandable_page_bytes
                                           : settings->large_segment_bytes;
}
