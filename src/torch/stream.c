/* SPDX-License-Identifier: MIT */
/* The window of a stream: slid over the mapped file, or refilled from a codec. */
#include "torch/stream.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "torch/codec.h"

enum { BUFFER_BYTES = 1024 * 1024 }; /* decoded bytes at a time, more when a value is longer */

/* Since Linux 5.14; older kernels refuse it, and pages come by faults. Some headers lack it. */
enum { POPULATE_READ = 22 };

static plm_status open_codec(plm_stream *stream)
{
    stream->codec = plm__codec_find(stream->source, stream->source_bytes);
    if (!stream->codec) {
        stream->next = stream->end = stream->window = stream->source;
        return PLM_OK;
    }
    PLM_TRY(plm__host_alloc(BUFFER_BYTES, &stream->buffer));
    stream->buffer_bytes = BUFFER_BYTES;
    stream->next = stream->end = stream->window = stream->buffer;
    return stream->codec->open(stream);
}

static plm_status begin(plm_stream *stream)
{
    plm_status status = open_codec(stream);
    if (status != PLM_OK)
        plm__stream_close(stream);
    return status;
}

plm_status plm__stream_over(const char *name, const void *bytes, size_t byte_count,
                            plm_stream *stream)
{
    *stream = (plm_stream){.name = name, .source = bytes, .source_bytes = byte_count};
    return begin(stream);
}

plm_status plm__stream_open(const char *path, plm_stream *stream)
{
    plm_file file = {0};
    PLM_TRY(plm__file_map(path, &file));
    *stream = (plm_stream){
        .name = path, .source = file.bytes, .source_bytes = file.byte_count, .file = file};
    return begin(stream);
}

void plm__stream_close(plm_stream *stream)
{
    if (stream->codec)
        stream->codec->close(stream);
    plm__host_free(stream->buffer);
    plm__file_unmap(&stream->file);
    *stream = (plm_stream){0};
}

/* Gives back the whole pages of a mapped file that end before `used`. They can be read again. */
static void drop_behind(const plm_stream *stream, size_t from, size_t used)
{
    if (!stream->file.bytes)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = from / page * page, last = used / page * page;
    if (last > first)
        madvise((void *)(stream->file.bytes + first), last - first, MADV_DONTNEED);
}

/* Maps the pages of the window in one go, which is cheaper than a fault for each. A hint only. */
static void map_window(const plm_stream *stream)
{
    if (!stream->file.bytes)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (size_t)(stream->window - stream->source) / page * page;
    size_t last = (size_t)(stream->end - stream->source);
    madvise((void *)(stream->file.bytes + first), last - first, POPULATE_READ);
}

static void slide(plm_stream *stream, size_t wanted)
{
    size_t old = (size_t)(stream->window - stream->source);
    size_t next = (size_t)(stream->next - stream->source);
    size_t rest = stream->source_bytes - (size_t)(stream->end - stream->source);
    size_t step = wanted > PLM_STREAM_WINDOW_BYTES ? wanted : PLM_STREAM_WINDOW_BYTES;
    drop_behind(stream, old, next);
    stream->window_offset = next;
    stream->window = stream->next;
    stream->end += step < rest ? step : rest;
    stream->source_used = next;
    map_window(stream);
}

/* Moves the unread bytes to the front of the buffer and decodes behind them. */
static plm_status refill(plm_stream *stream, size_t wanted)
{
    size_t kept = plm__stream_left(stream);
    stream->window_offset = plm__stream_offset(stream);
    if (kept > 0)
        memmove(stream->buffer, stream->next, kept);
    stream->next = stream->window = stream->buffer;
    stream->end = stream->buffer + kept;
    while (!stream->codec_ended && (kept < wanted || kept < stream->buffer_bytes / 2)) {
        if (kept == stream->buffer_bytes) { /* grows only as bytes really come */
            PLM_TRY(plm__host_realloc(stream->buffer_bytes * 2, &stream->buffer));
            stream->buffer_bytes *= 2;
            stream->next = stream->window = stream->buffer;
        }
        size_t made = 0;
        plm_status status = stream->codec->decode(stream, stream->buffer + kept,
                                                  stream->buffer_bytes - kept, &made);
        kept += made;
        stream->end = stream->buffer + kept;
        PLM_TRY(status);
    }
    return PLM_OK;
}

plm_status plm__stream_fill(plm_stream *stream, size_t wanted)
{
    if (plm__stream_left(stream) >= wanted)
        return PLM_OK;
    if (stream->codec)
        return refill(stream, wanted);
    if (stream->end - stream->source < (ptrdiff_t)stream->source_bytes)
        slide(stream, wanted);
    return PLM_OK;
}
