/* SPDX-License-Identifier: MIT */
/* memory_stats and the record beside a snapshot: small JSON objects of whole numbers. */
#include "plimsoll/memory_stats.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

static const char *const stat_texts[PLM_MEMORY_STAT_COUNT] = {
#define STAT_ROW(name, text) [PLM_MEMORY_STAT_##name] = text,
    PLM_MEMORY_STAT_MAP(STAT_ROW)
#undef STAT_ROW
};

static const char *const pool_texts[PLM_MEMORY_POOL_COUNT] = {"all", "large_pool", "small_pool"};

const char *plm_memory_stat_text(plm_memory_stat_kind kind)
{
    return (unsigned)kind < PLM_MEMORY_STAT_COUNT ? stat_texts[kind] : "unknown";
}

static plm_status read_object(const char *path, json_t **object)
{
    plm_file file;
    PLM_TRY(plm__file_map(path, &file));
    json_t *root = NULL;
    plm_status status = plm__json_read(path, file.bytes, file.byte_count, &root);
    plm__file_unmap(&file);
    PLM_TRY(status);
    if (!json_is_object(root)) {
        json_decref(root);
        return plm_fail(PLM_ERROR_FORMAT, "'%s': wanted a JSON object of memory figures", path);
    }
    *object = root;
    return PLM_OK;
}

/* What stands at "a.b.c", or in objects within objects; NULL when it is absent. */
static const json_t *look_up(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *dot = key;
    while (!value && (dot = strchr(dot, '.'))) {
        char head[64];
        snprintf(head, sizeof head, "%.*s", (int)(dot - key), key);
        const json_t *inner = json_object_get(object, head);
        dot++;
        if (json_is_object(inner)) {
            object = inner;
            key = dot;
            value = json_object_get(object, key);
        }
    }
    return value;
}

/* Leaves *number and *found alone when the key is absent. */
static plm_status read_number(const char *path, const json_t *object, const char *key,
                              int64_t *number, bool *found)
{
    const json_t *value = look_up(object, key);
    if (!value)
        return PLM_OK;
    PLM_FAIL_IF(!json_is_integer(value), PLM_ERROR_FORMAT, "'%s': '%s' is no whole number", path,
                key);
    *number = json_integer_value(value);
    *found = true;
    return PLM_OK;
}

/* "segment.large_pool" holds current, peak, allocated, freed. */
static plm_status read_stat(const char *path, const json_t *object, const char *prefix,
                            plm_memory_stat *stat, bool *found)
{
    const struct {
        const char *name;
        int64_t *place;
    } parts[] = {{"current", &stat->current},
                 {"peak", &stat->peak},
                 {"allocated", &stat->allocated},
                 {"freed", &stat->freed}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", prefix, parts[i].name);
        PLM_TRY(read_number(path, object, key, parts[i].place, found));
    }
    return PLM_OK;
}

static bool is_oversize(int kind)
{
    return kind == PLM_MEMORY_STAT_OVERSIZE_ALLOCATIONS ||
           kind == PLM_MEMORY_STAT_OVERSIZE_SEGMENTS;
}

static plm_status read_families(const char *path, const json_t *object, plm_memory_stats *stats,
                                bool *found)
{
    for (int kind = 0; kind < PLM_MEMORY_STAT_COUNT; kind++) {
        int pools = is_oversize(kind) ? 1 : PLM_MEMORY_POOL_COUNT;
        for (int pool = 0; pool < pools; pool++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "%s%s%s", stat_texts[kind], pools > 1 ? "." : "",
                     pools > 1 ? pool_texts[pool] : "");
            PLM_TRY(
                read_stat(path, object, prefix, &stats->stats[kind][pool], &stats->recorded[kind]));
        }
        *found |= stats->recorded[kind];
    }
    return PLM_OK;
}

static plm_status read_stats(const char *path, const json_t *object, plm_memory_stats *stats)
{
    bool found = false;
    int64_t split = -1;
    PLM_TRY(read_families(path, object, stats, &found));
    PLM_TRY(read_number(path, object, "num_alloc_retries", &stats->alloc_retries, &found));
    PLM_TRY(read_number(path, object, "num_ooms", &stats->ooms, &found));
    PLM_TRY(read_number(path, object, "num_sync_all_streams", &stats->sync_all_streams, &found));
    PLM_TRY(read_number(path, object, "num_device_alloc", &stats->device_allocs, &found));
    PLM_TRY(read_number(path, object, "num_device_free", &stats->device_frees, &found));
    PLM_TRY(read_number(path, object, "max_split_size", &split, &found));
    stats->max_split_bytes = split < 0 ? SIZE_MAX : (size_t)split;
    PLM_FAIL_IF(!found, PLM_ERROR_FORMAT,
                "'%s' holds no memory statistics: wanted keys like 'allocated_bytes.all.current'",
                path);
    return PLM_OK;
}

plm_status plm_memory_stats_read(const char *path, plm_memory_stats *stats)
{
    json_t *object;
    plm_memory_stats read = {.max_split_bytes = SIZE_MAX};
    PLM_TRY(read_object(path, &object));
    plm_status status = read_stats(path, object, &read);
    json_decref(object);
    if (status == PLM_OK)
        *stats = read;
    return status;
}

static plm_status read_record(const char *path, const json_t *object, plm_memory_record *record)
{
    const struct {
        const char *key;
        size_t *place;
    } parts[] = {{"allocated", &record->allocated_bytes},
                 {"allocated_peak", &record->allocated_peak_bytes},
                 {"reserved", &record->reserved_bytes},
                 {"reserved_peak", &record->reserved_peak_bytes},
                 {"driver_used", &record->driver_used_bytes},
                 {"total", &record->total_bytes}};
    bool found = false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int64_t number = 0;
        PLM_TRY(read_number(path, object, parts[i].key, &number, &found));
        PLM_FAIL_IF(number < 0, PLM_ERROR_FORMAT, "'%s': '%s' is negative", path, parts[i].key);
        *parts[i].place = (size_t)number;
    }
    PLM_FAIL_IF(!found, PLM_ERROR_FORMAT,
                "'%s' is no record of a snapshot: wanted keys like 'reserved_peak' and 'total'",
                path);
    return PLM_OK;
}

/* The figures of one device as the recorder writes them; a figure that it could not get is null. */
static void read_device(const json_t *found, plm_memory_record *record)
{
    const json_t *stats = json_object_get(found, "memory_stats");
    int64_t all = json_integer_value(json_object_get(found, "driver_total_bytes"));
    int64_t left = json_integer_value(json_object_get(found, "driver_free_bytes"));
    const struct {
        const json_t *value;
        size_t *place;
    } parts[] = {{json_object_get(found, "total_bytes"), &record->total_bytes},
                 {look_up(stats, "allocated_bytes.all.current"), &record->allocated_bytes},
                 {look_up(stats, "allocated_bytes.all.peak"), &record->allocated_peak_bytes},
                 {look_up(stats, "reserved_bytes.all.current"), &record->reserved_bytes},
                 {look_up(stats, "reserved_bytes.all.peak"), &record->reserved_peak_bytes}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_int_t number = json_integer_value(parts[i].value);
        *parts[i].place = number > 0 ? (size_t)number : 0;
    }
    record->driver_used_bytes = all > left && left >= 0 ? (size_t)(all - left) : 0;
}

/* {"devices": [{"device": 0, ...}, ...]}; a device that is not there leaves zeros. */
static void read_devices(const json_t *devices, int32_t device, plm_memory_record *record)
{
    size_t index;
    const json_t *found;
    json_array_foreach (devices, index, found) {
        const json_t *number = json_object_get(found, "device");
        if (json_is_integer(number) && json_integer_value(number) == device)
            read_device(found, record);
    }
}

plm_status plm_memory_record_read(const char *path, int32_t device, plm_memory_record *record)
{
    json_t *object;
    plm_memory_record read = {0};
    plm_status status = PLM_OK;
    PLM_TRY(read_object(path, &object));
    const json_t *devices = json_object_get(object, "devices");
    if (json_is_array(devices))
        read_devices(devices, device, &read);
    else
        status = read_record(path, object, &read);
    json_decref(object);
    if (status == PLM_OK)
        *record = read;
    return status;
}
