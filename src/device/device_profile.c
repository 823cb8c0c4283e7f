/* SPDX-License-Identifier: MIT */
/* Device profiles as JSON: one table of fields, each with its place and its range. */
#include "plimsoll/device_profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "device/device.h"
#include "device/gpu.h"
#include "graph/op_cost.h"
#include "device/device_files.h"

_Static_assert(PLM_OP_COUNT <= (int)PLM_DEVICE_PROFILE_OPS_MAX,
               "every operation has its place among the efficiencies");

void plm_device_use_profile(plm_device *device, const plm_device_profile *profile)
{
    device->profile = profile;
}

/* A figure over 0 or, where `zero` allows it, 0. */
static plm_status read_real(const char *what, const char *key, const json_t *value, bool zero,
                            double *figure)
{
    double found = json_number_value(value);
    PLM_FAIL_IF(!json_is_number(value) || !isfinite(found) || found < 0 || (found == 0 && !zero),
                PLM_ERROR_ARGUMENT, "%s: wanted %.60s as a number %s", what, key,
                zero ? "of 0 or more" : "over 0");
    *figure = found;
    return PLM_OK;
}

static plm_status read_whole(const char *what, const char *key, const json_t *value, int64_t most,
                             int64_t *figure)
{
    PLM_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 0 ||
                    json_integer_value(value) > most,
                PLM_ERROR_ARGUMENT, "%s: wanted %.60s as a whole number of 0 to %lld", what, key,
                (long long)most);
    *figure = json_integer_value(value);
    return PLM_OK;
}

static plm_status read_name(const char *what, const json_t *value, plm_device_profile *profile)
{
    const char *name = json_string_value(value);
    PLM_FAIL_IF(!name || strlen(name) >= sizeof profile->name, PLM_ERROR_ARGUMENT,
                "%s: wanted name as a text of under %zu characters", what, sizeof profile->name);
    snprintf(profile->name, sizeof profile->name, "%s", name);
    return PLM_OK;
}

static const char *const kind_texts[] = {[PLM_DEVICE_CPU] = "cpu", [PLM_DEVICE_CUDA] = "cuda"};

enum { KIND_COUNT = sizeof kind_texts / sizeof *kind_texts };

static plm_status read_kind(const char *what, const json_t *value, plm_device_profile *profile)
{
    const char *text = json_string_value(value);
    int kind = 0;
    while (text && kind < KIND_COUNT && strcmp(text, kind_texts[kind]) != 0)
        kind++;
    PLM_FAIL_IF(!text || kind == KIND_COUNT, PLM_ERROR_ARGUMENT,
                "%s: wanted kind \"cpu\" or \"cuda\", found '%.40s'", what,
                text ? text : "no text");
    profile->kind = (plm_device_kind)kind;
    return PLM_OK;
}

static plm_status read_threads(const char *what, const json_t *value, plm_device_profile *profile)
{
    int64_t threads;
    PLM_TRY(read_whole(what, "threads", value, INT32_MAX, &threads));
    profile->threads = (int32_t)threads;
    return PLM_OK;
}

static plm_status read_memory(const char *what, const json_t *value, plm_device_profile *profile)
{
    int64_t bytes;
    PLM_TRY(read_whole(what, "memory_bytes", value, INT64_MAX, &bytes));
    profile->memory_bytes = (size_t)bytes;
    return PLM_OK;
}

static plm_status read_overhead(const char *what, const json_t *value, plm_device_profile *profile)
{
    int64_t bytes;
    PLM_TRY(read_whole(what, "overhead_bytes", value, INT64_MAX, &bytes));
    profile->overhead_bytes = (size_t)bytes;
    return PLM_OK;
}

/* The dtype of that text, PLM_DTYPE_COUNT for none: no failure where a key may be something else.
 */
static int find_dtype(const char *text)
{
    int dtype = 0;
    while (dtype < PLM_DTYPE_COUNT && strcmp(text, plm_dtype_text((plm_dtype)dtype)) != 0)
        dtype++;
    return dtype;
}

static plm_status read_products(const char *what, const json_t *value, plm_device_profile *profile)
{
    const char *key;
    json_t *rate;
    PLM_FAIL_IF(!json_is_object(value), PLM_ERROR_ARGUMENT,
                "%s: wanted product_flops as an object such as {\"fp32\": 1e11}", what);
    json_object_foreach ((json_t *)value, key, rate) {
        const int dtype = find_dtype(key);
        PLM_FAIL_IF(dtype == PLM_DTYPE_COUNT, PLM_ERROR_ARGUMENT,
                    "%s: product_flops of the unknown type '%.40s'", what, key);
        PLM_TRY(read_real(what, key, rate, false, &profile->product_flops[dtype]));
    }
    return PLM_OK;
}

static plm_status read_bandwidth(const char *what, const json_t *value, plm_device_profile *profile)
{
    return read_real(what, "bandwidth", value, false, &profile->bandwidth);
}

static plm_status read_launch(const char *what, const json_t *value, plm_device_profile *profile)
{
    return read_real(what, "launch_seconds", value, true, &profile->launch_seconds);
}

/* Shares by operation; of all types, at first, and of one where its name stands. */
static plm_status read_shares(const char *what, const json_t *value, bool nested,
                              double shares[PLM_DEVICE_PROFILE_OPS_MAX],
                              plm_device_profile *profile)
{
    const char *key;
    json_t *share;
    PLM_FAIL_IF(!json_is_object(value), PLM_ERROR_ARGUMENT,
                "%s: wanted efficiency as an object such as {\"linear\": 0.9}", what);
    json_object_foreach ((json_t *)value, key, share) {
        char text[PLM_OP_KEY_TEXT];
        const int dtype = find_dtype(key);
        int kind = 0;
        if (dtype < PLM_DTYPE_COUNT && !nested) {
            PLM_TRY(read_shares(what, share, true, profile->efficiency_of[dtype], profile));
            continue;
        }
        while (kind < PLM_OP_COUNT && strcmp(key, plm__op_key((plm_op_kind)kind, text)) != 0)
            kind++;
        PLM_FAIL_IF(kind == PLM_OP_COUNT, PLM_ERROR_ARGUMENT,
                    "%s: efficiency of the unknown operation '%.40s'", what, key);
        PLM_TRY(read_real(what, key, share, false, &shares[kind]));
    }
    return PLM_OK;
}

static plm_status read_efficiency(const char *what, const json_t *value,
                                  plm_device_profile *profile)
{
    return read_shares(what, value, false, profile->efficiency, profile);
}

static plm_status read_gpu(const char *what, const json_t *value, plm_device_profile *profile)
{
    return plm__gpu_read(what, value, &profile->gpu);
}

static plm_status read_sources(const char *what, const json_t *value, plm_device_profile *profile);

static const struct {
    const char *name;
    plm_status (*read)(const char *what, const json_t *value, plm_device_profile *profile);
    bool needed;
} fields[] = {
    {"name", read_name, true},
    {"kind", read_kind, false},
    {"threads", read_threads, false},
    {"memory_bytes", read_memory, false},
    {"overhead_bytes", read_overhead, false},
    {"product_flops", read_products, true},
    {"bandwidth", read_bandwidth, true},
    {"launch_seconds", read_launch, true},
    {"efficiency", read_efficiency, false},
    {"gpu", read_gpu, false},
    {"sources", read_sources, false},
};

enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static plm_status find_field(const char *what, const char *name, int *field)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (strcmp(name, fields[i].name) == 0) {
            *field = i;
            return PLM_OK;
        }
    }
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "%s: unknown field '%.60s'; known are name, kind, threads, "
                    "memory_bytes, overhead_bytes, product_flops, bandwidth, launch_seconds, "
                    "efficiency, gpu, sources",
                    what, name);
}

/* A text's start that fits, cut between characters. */
static void copy_start(const char *text, char *copy, size_t room)
{
    int length = snprintf(copy, room, "%s", text);
    size_t end = length < (int)room ? (size_t)length : room - 1;
    while (end > 0 && !plm__utf8_is_valid(copy))
        copy[--end] = '\0';
}

/* Texts, one a figure; that of "bandwidth" stands for the rates. Of all others only that of "gpu"
 * is kept. */
static plm_status read_sources(const char *what, const json_t *value, plm_device_profile *profile)
{
    const char *key;
    json_t *text;
    int field;
    PLM_FAIL_IF(!json_is_object(value), PLM_ERROR_ARGUMENT,
                "%s: wanted sources as an object such as {\"bandwidth\": \"data sheet\"}", what);
    json_object_foreach ((json_t *)value, key, text) {
        PLM_TRY(find_field(what, key, &field));
        PLM_FAIL_IF(!json_is_string(text), PLM_ERROR_ARGUMENT,
                    "%s: wanted the source of %.60s as a text", what, key);
        if (strcmp(key, "bandwidth") == 0)
            copy_start(json_string_value(text), profile->source, sizeof profile->source);
        if (strcmp(key, "gpu") == 0)
            copy_start(json_string_value(text), profile->gpu.source, sizeof profile->gpu.source);
    }
    return PLM_OK;
}

/* What no device of today or of the next years is beyond: a figure outside is a slip of the pen or
 * of the unit, and plans by it would be nonsense. */
#define RATE_MIN       1e6 /* operations or bytes a second */
#define RATE_MAX       1e18
#define LAUNCH_MAX     1.0  /* seconds */
#define EFFICIENCY_MIN 1e-6 /* an operation that fits a cache is above 1 */
#define EFFICIENCY_MAX 1e3
#define MEMORY_MIN     0x1p24 /* 16 MiB */
#define MEMORY_MAX     0x1p50 /* 1 PiB */

static plm_status check_range(const char *what, const char *key, double found, double least,
                              double most)
{
    PLM_FAIL_IF(found < least || found > most, PLM_ERROR_ARGUMENT,
                "%s: wanted %.60s of %g to %g, found %g", what, key, least, most, found);
    return PLM_OK;
}

static plm_status check_shares(const char *what, const double shares[PLM_DEVICE_PROFILE_OPS_MAX])
{
    for (int i = 0; i < PLM_OP_COUNT; i++)
        if (shares[i] > 0)
            PLM_TRY(check_range(what, "efficiency", shares[i], EFFICIENCY_MIN, EFFICIENCY_MAX));
    return PLM_OK;
}

/* A CPU's memory may be left out, or 0, as calibration leaves it: the machine is asked. */
static plm_status check_figures(const char *what, const plm_device_profile *profile)
{
    for (int i = 0; i < PLM_DTYPE_COUNT; i++) {
        if (profile->product_flops[i] > 0)
            PLM_TRY(
                check_range(what, "product_flops", profile->product_flops[i], RATE_MIN, RATE_MAX));
        PLM_TRY(check_shares(what, profile->efficiency_of[i]));
    }
    PLM_TRY(check_shares(what, profile->efficiency));
    PLM_TRY(check_range(what, "bandwidth", profile->bandwidth, RATE_MIN, RATE_MAX));
    PLM_TRY(check_range(what, "launch_seconds", profile->launch_seconds, 0, LAUNCH_MAX));
    PLM_TRY(check_range(what, "overhead_bytes", (double)profile->overhead_bytes, 0, MEMORY_MAX));
    if (profile->memory_bytes > 0 || profile->kind != PLM_DEVICE_CPU)
        PLM_TRY(check_range(what, "memory_bytes", (double)profile->memory_bytes, MEMORY_MIN,
                            MEMORY_MAX));
    PLM_FAIL_IF(profile->memory_bytes > 0 && profile->overhead_bytes >= profile->memory_bytes,
                PLM_ERROR_ARGUMENT, "%s: an overhead of %zu bytes fills the memory of %zu", what,
                profile->overhead_bytes, profile->memory_bytes);
    return PLM_OK;
}

static plm_status read_all(const char *what, const json_t *root, plm_device_profile *profile)
{
    const char *name;
    json_t *value;
    int field;
    PLM_FAIL_IF(!json_is_object(root), PLM_ERROR_FORMAT, "%s: wanted one JSON object", what);
    json_object_foreach ((json_t *)root, name, value) {
        PLM_TRY(find_field(what, name, &field));
        PLM_TRY(fields[field].read(what, value, profile));
    }
    for (int i = 0; i < FIELD_COUNT; i++)
        PLM_FAIL_IF(fields[i].needed && !json_object_get(root, fields[i].name), PLM_ERROR_ARGUMENT,
                    "%s: the device profile lacks %s", what, fields[i].name);
    PLM_FAIL_IF(profile->product_flops[PLM_DTYPE_F32] == 0, PLM_ERROR_ARGUMENT,
                "%s: the device profile lacks product_flops of fp32", what);
    return check_figures(what, profile);
}

plm_status plm__device_profile_read(const char *what, const void *text, size_t byte_count,
                                    plm_device_profile *profile)
{
    json_t *root;
    plm_device_profile made = {0};
    PLM_TRY(plm__json_read_small(what, text, byte_count, &root));
    plm_status status = read_all(what, root, &made);
    json_decref(root);
    if (status == PLM_OK)
        *profile = made;
    return status;
}

plm_status plm_device_profile_load(const char *path, plm_device_profile *profile)
{
    plm_file file;
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm__device_profile_read(path, file.bytes, file.byte_count, profile);
    plm__file_unmap(&file);
    return status;
}

static bool has_shares(const double shares[PLM_DEVICE_PROFILE_OPS_MAX])
{
    for (int i = 0; i < PLM_OP_COUNT; i++)
        if (shares[i] > 0)
            return true;
    return false;
}

static void write_shares(plm_json_writer *json, const double shares[PLM_DEVICE_PROFILE_OPS_MAX])
{
    char text[PLM_OP_KEY_TEXT];
    for (int i = 0; i < PLM_OP_COUNT; i++)
        if (shares[i] > 0)
            plm__json_real(json, plm__op_key((plm_op_kind)i, text), shares[i]);
}

static void write_all(plm_json_writer *json, const plm_device_profile *profile)
{
    plm__json_begin_object(json, NULL);
    plm__json_text(json, "name", profile->name);
    plm__json_text(json, "kind", kind_texts[profile->kind]);
    plm__json_int(json, "threads", profile->threads);
    plm__json_bytes(json, "memory_bytes", profile->memory_bytes);
    plm__json_bytes(json, "overhead_bytes", profile->overhead_bytes);
    plm__json_begin_object(json, "product_flops");
    for (int i = 0; i < PLM_DTYPE_COUNT; i++)
        if (profile->product_flops[i] > 0)
            plm__json_real(json, plm_dtype_text((plm_dtype)i), profile->product_flops[i]);
    plm__json_end(json);
    plm__json_real(json, "bandwidth", profile->bandwidth);
    plm__json_real(json, "launch_seconds", profile->launch_seconds);
    plm__json_begin_object(json, "efficiency");
    write_shares(json, profile->efficiency);
    for (int dtype = 0; dtype < PLM_DTYPE_COUNT; dtype++) {
        if (!has_shares(profile->efficiency_of[dtype]))
            continue;
        plm__json_begin_object(json, plm_dtype_text((plm_dtype)dtype));
        write_shares(json, profile->efficiency_of[dtype]);
        plm__json_end(json);
    }
    plm__json_end(json);
    if (profile->gpu.capability > 0)
        plm__gpu_write(json, &profile->gpu);
    plm__json_begin_object(json, "sources");
    plm__json_text(json, "bandwidth", profile->source);
    if (profile->gpu.source[0])
        plm__json_text(json, "gpu", profile->gpu.source);
}

plm_status plm_device_profile_json(const plm_device_profile *profile, char **line)
{
    plm_json_writer json = {0};
    write_all(&json, profile);
    return plm__json_finish(&json, line);
}

enum { PATH_TEXT = 4096 };

/* Makes what is missing of a file's folders. */
static plm_status make_folders(const char *path)
{
    char folder[PATH_TEXT];
    PLM_FAIL_IF(strlen(path) >= sizeof folder, PLM_ERROR_ARGUMENT,
                "wanted a path of under %d characters, found '%.40s...'", PATH_TEXT, path);
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        PLM_TRY(plm__folder_make(folder));
        *slash = '/';
    }
    return PLM_OK;
}

plm_status plm_device_profile_save(const plm_device_profile *profile, const char *path)
{
    char *line = NULL;
    PLM_TRY(make_folders(path));
    PLM_TRY(plm_device_profile_json(profile, &line));
    plm_status status = plm__file_write(path, line, strlen(line));
    plm__host_free(line);
    return status;
}
