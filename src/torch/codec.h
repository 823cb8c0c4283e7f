/* SPDX-License-Identifier: MIT */
/* The compressed forms that a stream can read: one table row each, over that form's library. */
#ifndef PLM_TORCH_CODEC_H
#define PLM_TORCH_CODEC_H

#include "torch/stream.h"

enum {
    PLM_CODEC_XZ_MEMORY_MAX = 512 * 1024 * 1024, /* bytes that an xz file may ask for */
    PLM_CODEC_ZSTD_WINDOW_LOG_MAX = 29           /* 512 MiB, likewise */
};

typedef struct plm_codec {
    const char *name;
    const char *magic; /* the first bytes of such data */
    size_t magic_bytes;
    plm_status (*open)(plm_stream *stream); /* makes codec_state */
    /*
     * Decodes from stream->source into out[0 .. room) and sets *made; sets codec_ended when the
     * data ends cleanly. Makes at least one byte or ends or fails.
     */
    plm_status (*decode)(plm_stream *stream, uint8_t *out, size_t room, size_t *made);
    void (*close)(plm_stream *stream);
} plm_codec;

/* The codec whose magic number stands at the start of these bytes, NULL when there is none. */
const plm_codec *plm__codec_find(const uint8_t *bytes, size_t byte_count);

#endif
