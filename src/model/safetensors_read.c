/* SPDX-License-Identifier: MIT */
/* Reading safetensors: a mapping and a checked header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "model/safetensors_internal.h"
#include "base/dtype.h"

struct plm_safetensors {
    char path[256]; /* for messages; cut short when longer */
    plm_file file;
    json_t *header;
    PLM_ARRAY(plm_safetensor) tensors; /* in order of their data */
};

static plm_status malformed(const plm_safetensors *file, const char *what, const char *name)
{
    return plm_fail(PLM_ERROR_FORMAT, "%s is no whole safetensors file: %s%s%.80s%s", file->path,
                    what, name ? " '" : "", name ? name : "", name ? "'" : "");
}

static bool read_dtype(const char *text, plm_dtype *dtype)
{
    for (int i = 0; text && i < PLM_DTYPE_COUNT; i++) {
        if (strcmp(text, plm__safetensors_dtypes[i]) == 0) {
            *dtype = (plm_dtype)i;
            return true;
        }
    }
    return false;
}

static plm_status read_shape(const plm_safetensors *file, const json_t *shape,
                             plm_safetensor *tensor)
{
    if (!json_is_array(shape) || json_array_size(shape) > PLM_SAFETENSORS_RANK_MAX)
        return malformed(file, "no usable shape for", tensor->name);
    tensor->rank = (int32_t)json_array_size(shape);
    size_t elements = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        const json_t *dimension = json_array_get(shape, (size_t)i);
        tensor->shape[i] = json_integer_value(dimension);
        if (!json_is_integer(dimension) || tensor->shape[i] < 0)
            return malformed(file, "no usable shape for", tensor->name);
        PLM_TRY(plm__mul_bytes(elements, (size_t)tensor->shape[i], &elements));
    }
    if (elements > INT64_MAX)
        return malformed(file, "no usable shape for", tensor->name);
    return plm__dtype_bytes(tensor->dtype, (int64_t)elements, &tensor->bytes);
}

/* One entry of the header. Places are checked against each other once all are known. */
static plm_status read_tensor(plm_safetensors *file, const char *name, const json_t *entry,
                              const uint8_t *data, size_t data_bytes)
{
    plm_safetensor tensor = {.name = name};
    if (!read_dtype(json_string_value(json_object_get(entry, "dtype")), &tensor.dtype))
        return malformed(file, "an unknown dtype for", name);
    PLM_TRY(read_shape(file, json_object_get(entry, "shape"), &tensor));
    const json_t *place = json_object_get(entry, "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(place, 0));
    json_int_t end = json_integer_value(json_array_get(place, 1));
    if (json_array_size(place) != 2 || begin < 0 || end < begin || (size_t)end > data_bytes ||
        (size_t)(end - begin) != tensor.bytes)
        return malformed(file, "data_offsets do not fit shape, dtype and file for", name);
    tensor.data = data + begin;
    return PLM_ARRAY_PUSH(&file->tensors, tensor);
}

static int by_place(const void *left, const void *right)
{
    const plm_safetensor *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty ones first */
}

static plm_status check_places(plm_safetensors *file, const uint8_t *data, size_t data_bytes)
{
    const uint8_t *next = data;
    PLM_ARRAY_SORT(&file->tensors, by_place);
    for (int64_t i = 0; i < file->tensors.count; i++) {
        if (file->tensors.items[i].data != next)
            return malformed(file, "a hole or an overlap before the data of",
                             file->tensors.items[i].name);
        next += file->tensors.items[i].bytes;
    }
    return next == data + data_bytes ? PLM_OK
                                     : malformed(file, "bytes that belong to no tensor", NULL);
}

static plm_status read_header(plm_safetensors *file)
{
    uint64_t header_bytes = 0;
    if (file->file.byte_count < PLM__SAFETENSORS_LENGTH_BYTES)
        return malformed(file, "it is shorter than a header's length", NULL);
    for (int i = PLM__SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--)
        header_bytes = header_bytes << 8 | file->file.bytes[i];
    if (header_bytes > PLM_SAFETENSORS_HEADER_MAX ||
        header_bytes > file->file.byte_count - PLM__SAFETENSORS_LENGTH_BYTES)
        return malformed(file, "its header is longer than the file", NULL);
    const uint8_t *header = file->file.bytes + PLM__SAFETENSORS_LENGTH_BYTES;
    PLM_TRY(plm__json_read(file->path, header, header_bytes, &file->header));
    if (!json_is_object(file->header))
        return malformed(file, "its header is no JSON object", NULL);
    const uint8_t *data = header + header_bytes;
    size_t data_bytes = file->file.byte_count - PLM__SAFETENSORS_LENGTH_BYTES - header_bytes;
    const char *name;
    json_t *entry;
    json_object_foreach (file->header, name, entry)
        if (strcmp(name, PLM__SAFETENSORS_METADATA) != 0)
            PLM_TRY(read_tensor(file, name, entry, data, data_bytes));
    return check_places(file, data, data_bytes);
}

plm_status plm__safetensors_open(const char *path, plm_safetensors **file)
{
    plm_safetensors *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    snprintf(made->path, sizeof made->path, "%s", path);
    plm_status status = plm__file_map(path, &made->file);
    if (status == PLM_OK)
        status = read_header(made);
    return PLM_HAND_OVER(status, made, plm__safetensors_close, file);
}

void plm__safetensors_close(plm_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->header);
    plm__file_unmap(&file->file);
    PLM_ARRAY_FREE(&file->tensors);
    plm__host_free(file);
}

plm_status plm__safetensors_verify(const plm_safetensors *file)
{
    const plm_safetensor *sum = plm__safetensors_find(file, PLM__SAFETENSORS_CHECKSUM);
    if (!sum || sum->bytes != PLM__SAFETENSORS_CHECKSUM_BYTES ||
        sum->data + sum->bytes != file->file.bytes + file->file.byte_count)
        return malformed(file, "it does not end with its checksum", NULL);
    uint8_t wanted[PLM__SAFETENSORS_CHECKSUM_BYTES];
    plm__safetensors_checksum_bytes(
        plm__safetensors_checksum(0, file->file.bytes, file->file.byte_count - sizeof wanted),
        wanted);
    if (memcmp(wanted, sum->data, sizeof wanted) != 0)
        return malformed(file, "its checksum says that bytes were changed", NULL);
    return PLM_OK;
}

const plm_safetensor *plm__safetensors_find(const plm_safetensors *file, const char *name)
{
    for (int64_t i = 0; i < file->tensors.count; i++)
        if (strcmp(file->tensors.items[i].name, name) == 0)
            return &file->tensors.items[i];
    return NULL;
}

const char *plm__safetensors_metadata(const plm_safetensors *file, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(file->header, PLM__SAFETENSORS_METADATA), key));
}
