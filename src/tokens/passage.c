/* SPDX-License-Identifier: MIT */
/* Bytes and where they came from. */
#include "tokens/passage.h"

#include <string.h>

#include "base/status.h"

void plm__passage_borrow(plm_passage *passage, const char *bytes, int64_t count, int64_t base)
{
    passage->bytes = bytes;
    passage->count = count;
    passage->base = base;
    passage->sources = NULL;
    passage->is_borrowed = true;
    passage->status = PLM_OK;
}

void plm__passage_begin(plm_passage *passage, bool keeps_sources, int64_t limit)
{
    passage->bytes = passage->own;
    passage->count = 0;
    passage->base = 0;
    passage->sources = NULL;
    passage->limit = limit;
    passage->keeps_sources = keeps_sources;
    passage->is_borrowed = false;
    passage->status = PLM_OK;
}

/* Room for `count` more bytes. */
static bool grow(plm_passage *p, int64_t count)
{
    if (p->status != PLM_OK)
        return false;
    if (count > p->limit - p->count)
        p->status = plm_fail(PLM_ERROR_UNSUPPORTED,
                             "wanted a tokenizer that makes at most %lld bytes of this text, found "
                             "one whose replacements make more",
                             (long long)p->limit);
    if (p->status == PLM_OK)
        p->status = plm__array_grow(&p->own, &p->own_capacity, p->count + count, 1);
    if (p->status == PLM_OK && p->keeps_sources)
        p->status = plm__array_grow(&p->own_sources, &p->source_capacity, p->count + count,
                                    sizeof *p->own_sources);
    p->bytes = p->own;
    p->sources = p->keeps_sources ? p->own_sources : NULL;
    return p->status == PLM_OK;
}

void plm__passage_copy(plm_passage *passage, const plm_passage *from, plm_span span)
{
    int64_t count = span.end - span.start;
    if (count <= 0 || !grow(passage, count))
        return;
    memcpy(passage->own + passage->count, from->bytes + span.start, (size_t)count);
    for (int64_t i = 0; passage->keeps_sources && i < count; i++) {
        plm_span source = plm__passage_source(from, (plm_span){span.start + i, span.start + i + 1});
        passage->own_sources[passage->count + i] =
            (plm_text_source){(uint32_t)source.start, (uint32_t)source.end};
    }
    passage->count += count;
}

void plm__passage_replace(plm_passage *passage, const plm_passage *from, plm_span span,
                          const char *bytes, int64_t count)
{
    if (count <= 0 || !grow(passage, count))
        return;
    memcpy(passage->own + passage->count, bytes, (size_t)count);
    if (passage->keeps_sources) {
        plm_span source = plm__passage_source(from, span);
        for (int64_t i = 0; i < count; i++)
            passage->own_sources[passage->count + i] =
                (plm_text_source){(uint32_t)source.start, (uint32_t)source.end};
    }
    passage->count += count;
}

plm_status plm__passage_status(const plm_passage *passage)
{
    return passage->status;
}

plm_span plm__passage_source(const plm_passage *passage, plm_span span)
{
    if (passage->is_borrowed)
        return (plm_span){passage->base + span.start, passage->base + span.end};
    if (!passage->sources || passage->count == 0)
        return (plm_span){0, 0};
    if (span.start == span.end) { /* a place: before a byte, or behind the last */
        bool is_last = span.start >= passage->count;
        plm_text_source at = passage->sources[is_last ? passage->count - 1 : span.start];
        return (plm_span){is_last ? at.end : at.start, is_last ? at.end : at.start};
    }
    return (plm_span){passage->sources[span.start].start, passage->sources[span.end - 1].end};
}

void plm__passage_fini(plm_passage *passage)
{
    plm__host_free(passage->own);
    plm__host_free(passage->own_sources);
    memset(passage, 0, sizeof *passage);
}
