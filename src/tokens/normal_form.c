/* SPDX-License-Identifier: MIT */
/*
 * A text is taken in segments: a character that nothing before it can change or join, and those
 * behind it that are not such. Most segments are one character that stays as it is, and runs of
 * those are copied. What is written anew came from its whole segment.
 */
#include "tokens/normal_form.h"

#include <string.h>

#include <utf8proc.h>

#include "tokens/unicode.h"

enum {
    DECOMPOSED_MAX = 32,
    CLASS_SHIFT = 32,
    HANGUL_TAIL = 0x11a7 /* before the first tail: utf8proc joins it to a syllable, and loses it */
};

/* Below these a character stays as it is, unless a mark follows. */
static const uint32_t quiet_below[PLM_FORM_COUNT] = {0x300, 0xc0, 0xa0, 0xa0};

typedef struct work {
    plm_normal_form form;
    PLM_ARRAY(int32_t) points;  /* of the segment, decomposed */
    PLM_ARRAY(uint64_t) ranked; /* a run of marks: class, place, point */
    PLM_ARRAY(char) bytes;      /* the segment's form */
} work;

static bool is_composing(plm_normal_form form)
{
    return form == PLM_FORM_NFC || form == PLM_FORM_NFKC;
}

static int decompose(plm_normal_form form, uint32_t point, int32_t points[DECOMPOSED_MAX])
{
    bool is_compatible = form == PLM_FORM_NFKC || form == PLM_FORM_NFKD;
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (is_compatible ? UTF8PROC_COMPAT : 0);
    int boundary = 0;
    points[0] = (int32_t)point;
    if (plm__unicode_kind(point) & PLM_KIND_STRANGER)
        return 1;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)point, points,
                                                     DECOMPOSED_MAX, options, &boundary);
    return count >= 1 && count <= DECOMPOSED_MAX ? (int)count : 1;
}

static bool may_join(uint32_t point)
{
    uint32_t kind = plm__unicode_kind(point), category = kind & PLM_KIND_CATEGORY;
    if (kind & PLM_KIND_STRANGER)
        return false;
    return (category >= PLM_CATEGORY_MN && category <= PLM_CATEGORY_ME) ||
           (point >= 0x1160 && point <= 0x11ff && point != HANGUL_TAIL) ||
           utf8proc_get_property((int32_t)point)->combining_class;
}

/* Whether a character begins a segment. */
static bool begins(plm_normal_form form, uint32_t point)
{
    int32_t points[DECOMPOSED_MAX];
    if (point < quiet_below[form])
        return true;
    decompose(form, point, points);
    return !may_join(point) && !may_join((uint32_t)points[0]);
}

static int class_of(int32_t point)
{
    bool is_stranger = plm__unicode_kind((uint32_t)point) & PLM_KIND_STRANGER;
    return is_stranger ? 0 : utf8proc_get_property(point)->combining_class;
}

static int by_rank(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Orders a run of `count` marks by class, those of a class as they stood. The place is the middle
 * of a rank, so that sorting is stable: a segment may be long, and is sorted in n log n. */
static plm_status order_marks(work *w, int64_t start, int64_t count)
{
    PLM_ARRAY(int32_t) copy = {0};
    plm_status status = PLM_OK;
    w->ranked.count = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t class = (uint64_t)class_of(w->points.items[start + i]);
        PLM_TRY_DONE(PLM_ARRAY_PUSH(&w->ranked, class << CLASS_SHIFT | (uint64_t)i));
        PLM_TRY_DONE(PLM_ARRAY_PUSH(&copy, w->points.items[start + i]));
    }
    PLM_ARRAY_SORT(&w->ranked, by_rank);
    for (int64_t i = 0; i < count; i++)
        w->points.items[start + i] = copy.items[(uint32_t)w->ranked.items[i]];
done:
    PLM_ARRAY_FREE(&copy);
    return status;
}

static plm_status order(work *w)
{
    for (int64_t i = 0; i < w->points.count;) {
        int64_t start = i;
        bool is_ordered = true;
        int last = 0;
        for (int class; i < w->points.count && (class = class_of(w->points.items[i])) != 0; i++) {
            is_ordered = is_ordered && class >= last;
            last = class;
        }
        if (!is_ordered)
            PLM_TRY(order_marks(w, start, i - start));
        i += i == start;
    }
    return PLM_OK;
}

/* w->bytes becomes the form of a segment. */
static plm_status form_segment(work *w, const char *bytes, int64_t count)
{
    int length;
    w->points.count = 0;
    for (int64_t at = 0; at < count; at += length) {
        int32_t points[DECOMPOSED_MAX];
        int more = decompose(w->form, plm__unicode_next(bytes + at, &length), points);
        for (int i = 0; i < more; i++)
            PLM_TRY(PLM_ARRAY_PUSH(&w->points, points[i]));
    }
    PLM_TRY(order(w));
    if (is_composing(w->form))
        w->points.count = utf8proc_normalize_utf32(w->points.items, w->points.count,
                                                   UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    w->bytes.count = 0;
    PLM_TRY(PLM_ARRAY_RESERVE(&w->bytes, 4 * w->points.count));
    for (int64_t i = 0; i < w->points.count; i++)
        w->bytes.count +=
            plm__unicode_put((uint32_t)w->points.items[i], w->bytes.items + w->bytes.count);
    return PLM_OK;
}

/* The end of the segment that begins at `at`; whether it is one quiet character. */
static int64_t segment_end(plm_normal_form form, const plm_passage *in, int64_t at, bool *is_quiet)
{
    int length;
    *is_quiet = plm__unicode_next(in->bytes + at, &length) < quiet_below[form];
    for (at += length; at < in->count; at += length) {
        if (begins(form, plm__unicode_next(in->bytes + at, &length)))
            return at;
        *is_quiet = false;
    }
    return at;
}

plm_status plm__normal_form_apply(plm_normal_form form, const plm_passage *in, plm_passage *out)
{
    work w = {.form = form};
    plm_status status = PLM_OK;
    int64_t copied = 0, end;
    for (int64_t at = 0; at < in->count; at = end) {
        bool is_quiet;
        end = segment_end(form, in, at, &is_quiet);
        if (is_quiet)
            continue;
        PLM_TRY_DONE(form_segment(&w, in->bytes + at, end - at));
        if (w.bytes.count == end - at &&
            memcmp(w.bytes.items, in->bytes + at, (size_t)w.bytes.count) == 0)
            continue;
        plm__passage_copy(out, in, (plm_span){copied, at});
        plm__passage_replace(out, in, (plm_span){at, end}, w.bytes.items, w.bytes.count);
        copied = end;
    }
    plm__passage_copy(out, in, (plm_span){copied, in->count});
    status = plm__passage_status(out);
done:
    PLM_ARRAY_FREE(&w.points);
    PLM_ARRAY_FREE(&w.ranked);
    PLM_ARRAY_FREE(&w.bytes);
    return status;
}

int64_t plm__grapheme_end(const char *bytes, int64_t start, int64_t count)
{
    int length;
    utf8proc_int32_t state = 0;
    uint32_t last = plm__unicode_next(bytes + start, &length);
    int64_t at = start + length;
    for (; at < count; at += length) {
        uint32_t point = plm__unicode_next(bytes + at, &length);
        if (utf8proc_grapheme_break_stateful((int32_t)last, (int32_t)point, &state))
            break;
        last = point;
    }
    return at;
}
