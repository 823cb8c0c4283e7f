/* SPDX-License-Identifier: MIT */
/*
 * Files in the safetensors format: 8 bytes of header length (little endian), a JSON header that
 * gives each tensor its dtype, shape and place, then the data without holes. Files that Plimsoll
 * writes end with a tensor "plimsoll.crc32", the CRC-32 of every byte before it, so that any
 * damaged byte is found.
 *
 * Reading maps the file and copies nothing: a file that another program cuts short meanwhile ends
 * this one by SIGBUS, as base/file.h says. Writers of ours replace a file whole. One thread uses a
 * reader or a writer.
 */
#ifndef PLM_MODEL_SAFETENSORS_H
#define PLM_MODEL_SAFETENSORS_H

#include "base/host.h"
#include "plimsoll/dtype.h"

enum {
    PLM_SAFETENSORS_RANK_MAX = 8,
    PLM_SAFETENSORS_HEADER_MAX = 100 << 20 /* bytes, as the reference reader */
};

typedef struct plm_safetensor {
    const char *name;
    plm_dtype dtype;
    int32_t rank;
    int64_t shape[PLM_SAFETENSORS_RANK_MAX];
    const uint8_t *data; /* in the mapping */
    size_t bytes;
} plm_safetensor;

typedef struct plm_safetensors plm_safetensors;

/*
 * *file = the file mapped, its header checked: places in order, without holes, inside the file, as
 * long as shape and dtype say. PLM_ERROR_IO, PLM_ERROR_FORMAT (what is wrong, in one line). Owned
 * by the caller.
 */
PLM_MUST_USE plm_status plm__safetensors_open(const char *path, plm_safetensors **file);

/* Ends the mapping; NULL is allowed. */
void plm__safetensors_close(plm_safetensors *file);

/* PLM_ERROR_FORMAT unless the file ends with its checksum and it is right: reads the whole file. */
PLM_MUST_USE plm_status plm__safetensors_verify(const plm_safetensors *file);

/* The tensor of this name, NULL when there is none; borrowed. */
const plm_safetensor *plm__safetensors_find(const plm_safetensors *file, const char *name);

/* A text of the header's metadata, NULL when there is none; borrowed. */
const char *plm__safetensors_metadata(const plm_safetensors *file, const char *key);

typedef struct plm_safetensors_writer plm_safetensors_writer;

/* *writer = a file to be; owned by the caller, ended by exactly one of finish and abandon. */
PLM_MUST_USE plm_status plm__safetensors_begin(const char *path, plm_safetensors_writer **writer);

/* A text of the header's metadata; before the first tensor. */
void plm__safetensors_note(plm_safetensors_writer *writer, const char *key, const char *text);

/* A tensor whose data will follow, in the order of these calls. */
PLM_MUST_USE plm_status plm__safetensors_declare(plm_safetensors_writer *writer, const char *name,
                                                 plm_dtype dtype, int32_t rank,
                                                 const int64_t *shape);

/* The next bytes of the tensors' data. The first call ends the declarations. */
PLM_MUST_USE plm_status plm__safetensors_append(plm_safetensors_writer *writer, const void *bytes,
                                                size_t byte_count);

/* Ends the writer; the file is then whole, or as it was. PLM_ERROR_STATE when data is missing. */
PLM_MUST_USE plm_status plm__safetensors_finish(plm_safetensors_writer *writer);

/* NULL is allowed. */
void plm__safetensors_abandon(plm_safetensors_writer *writer);

#endif
