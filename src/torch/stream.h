/* SPDX-License-Identifier: MIT */
/*
 * A stream of plain bytes over a file that may be compressed.
 *
 * xz, zstd and gzip are told by their first bytes and decoded by their own libraries, one bounded
 * window at a time; anything else is passed on as it is, straight from the mapped file. A reader
 * works on the window next .. end, moves `next`, and asks for more when too few bytes are left:
 *
 *     PLM_TRY(plm__stream_fill(&stream, 9));
 *     if (plm__stream_left(&stream) < 9)
 *         ... the data ends here ...
 *
 * Invariant: pages of the file that lie behind the window are given back, so resident memory does
 * not grow with the file. One thread.
 */
#ifndef PLM_TORCH_STREAM_H
#define PLM_TORCH_STREAM_H

#include "base/file.h"

enum { PLM_STREAM_WINDOW_BYTES = 4 * 1024 * 1024 }; /* a step of a mapped file */

struct plm_codec;

typedef struct plm_stream {
    const uint8_t *next;           /* the unread bytes of the window: next .. end */
    const uint8_t *end;            /* changed by plm__stream_fill only */
    const uint8_t *window;         /* its first byte */
    uint64_t window_offset;        /* of that byte in the plain data */
    const char *name;              /* for messages, borrowed */
    const uint8_t *source;         /* the bytes as stored */
    size_t source_bytes;           /* how many */
    size_t source_used;            /* of them, given to the codec or behind the window */
    const struct plm_codec *codec; /* NULL: stored plainly */
    void *codec_state;
    bool codec_ended; /* the last member ended cleanly */
    uint8_t *buffer;  /* decoded window, NULL when stored plainly */
    size_t buffer_bytes;
    plm_file file; /* empty when the bytes are borrowed */
} plm_stream;

/*
 * Opens a file; `path` is borrowed for messages. PLM_ERROR_IO, PLM_ERROR_HOST_MEMORY. The struct
 * must not move while it is open.
 */
PLM_MUST_USE plm_status plm__stream_open(const char *path, plm_stream *stream);

/* The same over bytes in memory, borrowed until the stream is closed. */
PLM_MUST_USE plm_status plm__stream_over(const char *name, const void *bytes, size_t byte_count,
                                         plm_stream *stream);

/* Ends the stream; a zeroed struct is allowed. */
void plm__stream_close(plm_stream *stream);

/*
 * Moves the window on until it holds `wanted` unread bytes, or all that are left when those are
 * fewer. Pointers into the old window die. PLM_ERROR_FORMAT when compressed data is damaged or cut
 * off, PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__stream_fill(plm_stream *stream, size_t wanted);

/* Unread bytes of the window. */
static inline size_t plm__stream_left(const plm_stream *stream)
{
    return (size_t)(stream->end - stream->next);
}

/* The place of the next byte in the plain data. */
static inline uint64_t plm__stream_offset(const plm_stream *stream)
{
    return stream->window_offset + (uint64_t)(stream->next - stream->window);
}

#endif
