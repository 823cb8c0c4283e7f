/* SPDX-License-Identifier: MIT */
/* Writing safetensors: declarations become the header, then data in pieces, then the checksum. */
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "model/safetensors_internal.h"
#include "base/dtype.h"

struct plm_safetensors_writer {
    plm_file_writer file;
    plm_json_writer header;
    bool in_metadata;  /* notes may still be added */
    bool in_header;    /* tensors may still be declared */
    size_t data_bytes; /* declared */
    size_t written;    /* of them */
    uint32_t checksum; /* of everything written */
};

const char *const plm__safetensors_dtypes[PLM_DTYPE_COUNT] = {
    [PLM_DTYPE_F32] = "F32", [PLM_DTYPE_BF16] = "BF16", [PLM_DTYPE_F16] = "F16",
    [PLM_DTYPE_I32] = "I32", [PLM_DTYPE_U8] = "U8",
};

uint32_t plm__safetensors_checksum(uint32_t sum, const void *bytes, size_t byte_count)
{
    return (uint32_t)crc32_z(sum, bytes, byte_count);
}

void plm__safetensors_checksum_bytes(uint32_t sum, uint8_t bytes[PLM__SAFETENSORS_CHECKSUM_BYTES])
{
    for (int i = 0; i < PLM__SAFETENSORS_CHECKSUM_BYTES; i++)
        bytes[i] = (uint8_t)(sum >> (8 * i));
}

plm_status plm__safetensors_begin(const char *path, plm_safetensors_writer **writer)
{
    plm_safetensors_writer *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    plm_status status = plm__file_begin(path, &made->file);
    if (status != PLM_OK) {
        plm__host_free(made);
        return status;
    }
    plm__json_begin_object(&made->header, NULL);
    plm__json_begin_object(&made->header, PLM__SAFETENSORS_METADATA);
    made->in_metadata = made->in_header = true;
    *writer = made;
    return PLM_OK;
}

void plm__safetensors_note(plm_safetensors_writer *writer, const char *key, const char *text)
{
    PLM_ASSERT(writer->in_metadata);
    plm__json_text(&writer->header, key, text);
}

plm_status plm__safetensors_declare(plm_safetensors_writer *writer, const char *name,
                                    plm_dtype dtype, int32_t rank, const int64_t *shape)
{
    PLM_ASSERT(writer->in_header);
    if (writer->in_metadata)
        plm__json_end(&writer->header);
    writer->in_metadata = false;
    size_t elements = 1, bytes, end;
    plm__json_begin_object(&writer->header, name);
    plm__json_text(&writer->header, "dtype", plm__safetensors_dtypes[dtype]);
    plm__json_begin_array(&writer->header, "shape");
    for (int32_t i = 0; i < rank; i++) {
        plm__json_int(&writer->header, NULL, shape[i]);
        PLM_TRY(plm__mul_bytes(elements, (size_t)shape[i], &elements));
    }
    plm__json_end(&writer->header);
    PLM_TRY(plm__dtype_bytes(dtype, (int64_t)elements, &bytes));
    PLM_TRY(plm__add_bytes(writer->data_bytes, bytes, &end));
    plm__json_begin_array(&writer->header, "data_offsets");
    plm__json_bytes(&writer->header, NULL, writer->data_bytes);
    plm__json_bytes(&writer->header, NULL, end);
    plm__json_end(&writer->header);
    plm__json_end(&writer->header);
    writer->data_bytes = end;
    return PLM_OK;
}

static plm_status append(plm_safetensors_writer *writer, const void *bytes, size_t byte_count)
{
    writer->checksum = plm__safetensors_checksum(writer->checksum, bytes, byte_count);
    return plm__file_append(&writer->file, bytes, byte_count);
}

/* Ends the declarations with the checksum's, and writes length and header, filled up to 8 bytes
 * with blanks. */
static plm_status write_header(plm_safetensors_writer *writer)
{
    static const int64_t checksum_shape = PLM__SAFETENSORS_CHECKSUM_BYTES;
    PLM_TRY(plm__safetensors_declare(writer, PLM__SAFETENSORS_CHECKSUM, PLM_DTYPE_U8, 1,
                                     &checksum_shape));
    plm__json_end(&writer->header);
    writer->in_header = false;
    char *text = NULL;
    PLM_TRY(plm__json_finish(&writer->header, &text));
    uint64_t text_bytes = strlen(text), blanks = -text_bytes % PLM__SAFETENSORS_LENGTH_BYTES;
    uint8_t length[PLM__SAFETENSORS_LENGTH_BYTES];
    for (int i = 0; i < PLM__SAFETENSORS_LENGTH_BYTES; i++)
        length[i] = (uint8_t)((text_bytes + blanks) >> (8 * i));
    plm_status status = append(writer, length, sizeof length);
    if (status == PLM_OK)
        status = append(writer, text, text_bytes);
    if (status == PLM_OK)
        status = append(writer, "        ", blanks);
    plm__host_free(text);
    return status;
}

plm_status plm__safetensors_append(plm_safetensors_writer *writer, const void *bytes,
                                   size_t byte_count)
{
    if (writer->in_header)
        PLM_TRY(write_header(writer));
    writer->written += byte_count;
    return append(writer, bytes, byte_count);
}

static plm_status write_rest(plm_safetensors_writer *writer)
{
    if (writer->in_header)
        PLM_TRY(write_header(writer));
    PLM_FAIL_IF(writer->written + PLM__SAFETENSORS_CHECKSUM_BYTES != writer->data_bytes,
                PLM_ERROR_STATE, "%zu bytes of data were declared, %zu came",
                writer->data_bytes - PLM__SAFETENSORS_CHECKSUM_BYTES, writer->written);
    uint8_t sum[PLM__SAFETENSORS_CHECKSUM_BYTES];
    plm__safetensors_checksum_bytes(writer->checksum, sum);
    return append(writer, sum, sizeof sum);
}

plm_status plm__safetensors_finish(plm_safetensors_writer *writer)
{
    plm_status status = write_rest(writer);
    if (status != PLM_OK) {
        plm__safetensors_abandon(writer);
        return status;
    }
    status = plm__file_finish(&writer->file);
    plm__json_abandon(&writer->header);
    plm__host_free(writer);
    return status;
}

void plm__safetensors_abandon(plm_safetensors_writer *writer)
{
    if (!writer)
        return;
    plm__file_abandon(&writer->file);
    plm__json_abandon(&writer->header);
    plm__host_free(writer);
}
