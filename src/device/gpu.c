/* SPDX-License-Identifier: MIT */
/* What sizes depend on, read from a device profile: one table of fields, each with its range. */
#include "device/gpu.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
    int64_t least, most;
    const char *unit;
} fields[] = {
#define FIELD_ROW(field, least, most, unit) {#field, offsetof(plm_gpu, field), least, most, unit},
    PLM_GPU_FIELD_MAP(FIELD_ROW)
#undef FIELD_ROW
};

enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static int64_t *place_of(plm_gpu *gpu, int field)
{
    return (int64_t *)((char *)gpu + fields[field].offset);
}

static int find_field(const char *name)
{
    int field = 0;
    while (field < FIELD_COUNT && strcmp(name, fields[field].name) != 0)
        field++;
    return field;
}

static plm_status read_name(const char *what, const json_t *value, plm_gpu *gpu)
{
    const char *found = json_string_value(value);
    PLM_FAIL_IF(!found || !*found || strlen(found) >= PLM_GPU_NAME_TEXT || strpbrk(found, "\r\n"),
                PLM_ERROR_ARGUMENT, "%s: wanted gpu.name as a text of one line of 1 to %d bytes",
                what, PLM_GPU_NAME_TEXT - 1);
    snprintf(gpu->name, sizeof gpu->name, "%s", found);
    return PLM_OK;
}

static plm_status read_number(const char *what, int field, const json_t *value, plm_gpu *gpu)
{
    const json_int_t found = json_integer_value(value);
    PLM_FAIL_IF(!json_is_integer(value) || found < fields[field].least ||
                    found > fields[field].most,
                PLM_ERROR_ARGUMENT, "%s: wanted gpu.%s (%s) as a whole number of %lld to %lld",
                what, fields[field].name, fields[field].unit, (long long)fields[field].least,
                (long long)fields[field].most);
    *place_of(gpu, field) = found;
    return PLM_OK;
}

plm_status plm__gpu_read(const char *what, const json_t *object, plm_gpu *gpu)
{
    const char *key;
    json_t *value;
    PLM_FAIL_IF(!json_is_object(object), PLM_ERROR_ARGUMENT,
                "%s: wanted gpu as an object such as {\"capability\": 90}", what);
    json_object_foreach ((json_t *)object, key, value) {
        const int field = find_field(key);
        if (strcmp(key, "name") == 0) {
            PLM_TRY(read_name(what, value, gpu));
            continue;
        }
        PLM_FAIL_IF(field == FIELD_COUNT, PLM_ERROR_ARGUMENT, "%s: unknown field gpu.%.60s", what,
                    key);
        PLM_TRY(read_number(what, field, value, gpu));
    }
    PLM_FAIL_IF(!json_object_get(object, "name"), PLM_ERROR_ARGUMENT,
                "%s: the device profile lacks gpu.name", what);
    for (int i = 0; i < FIELD_COUNT; i++)
        PLM_FAIL_IF(!json_object_get(object, fields[i].name), PLM_ERROR_ARGUMENT,
                    "%s: the device profile lacks gpu.%s", what, fields[i].name);
    return PLM_OK;
}

void plm__gpu_write(plm_json_writer *json, const plm_gpu *gpu)
{
    plm__json_begin_object(json, "gpu");
    plm__json_text(json, "name", gpu->name);
    for (int i = 0; i < FIELD_COUNT; i++)
        plm__json_int(json, fields[i].name, *place_of((plm_gpu *)gpu, i));
    plm__json_end(json);
}
