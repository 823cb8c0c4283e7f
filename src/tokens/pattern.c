/* SPDX-License-Identifier: MIT */
/* Texts and classes are searched here, expressions by regex.c. */
#include "tokens/pattern.h"

#include <string.h>

#include "tokens/regex.h"
#include "tokens/unicode.h"

plm_status plm__pattern_literal(const char *text, int64_t count, plm_pattern *pattern)
{
    char *copy = NULL;
    PLM_TRY(plm__host_alloc((size_t)count + 1, &copy));
    memcpy(copy, text, (size_t)count);
    *pattern = (plm_pattern){.text = copy, .text_count = count};
    return PLM_OK;
}

plm_status plm__pattern_regex(const char *what, const char *expression, int64_t count,
                              plm_pattern *pattern)
{
    plm_regex *regex = NULL;
    PLM_TRY(plm__regex_create(what, expression, count, &regex));
    *pattern = (plm_pattern){.regex = regex};
    return PLM_OK;
}

void plm__pattern_fini(plm_pattern *pattern)
{
    plm__host_free(pattern->text);
    plm__regex_destroy(pattern->regex);
    memset(pattern, 0, sizeof *pattern);
}

void plm__searcher_fini(plm_searcher *searcher)
{
    plm__regex_searcher_destroy(searcher->regex);
    searcher->regex = NULL;
    PLM_ARRAY_FREE(&searcher->elder);
}

void plm__searcher_allow(plm_searcher *searcher, int64_t count, bool has_young)
{
    searcher->steps_left = PLM_SEARCH_STEPS_LEAST + PLM_SEARCH_STEPS_A_BYTE * count;
    searcher->has_young = has_young;
}

/* Young characters become elders of the same length. */
static plm_status make_elder(plm_searcher *searcher)
{
    int length;
    PLM_TRY(PLM_ARRAY_RESERVE(&searcher->elder, searcher->count));
    char *elder = searcher->elder.items;
    if (searcher->count > 0)
        memcpy(elder, searcher->text, (size_t)searcher->count);
    for (int64_t at = 0; at < searcher->count; at += length) {
        uint32_t point = plm__unicode_next(searcher->text + at, &length);
        if (length > 2 && plm__unicode_kind(point) & PLM_KIND_YOUNG)
            plm__unicode_put(plm__unicode_elder(point), elder + at);
    }
    searcher->text = elder;
    return PLM_OK;
}

plm_status plm__searcher_begin(plm_searcher *searcher, const plm_pattern *pattern, const char *text,
                               int64_t count)
{
    searcher->text = text;
    searcher->count = count;
    searcher->last_end = -1;
    searcher->from = 0;
    if (!pattern->regex)
        return PLM_OK;
    if (!searcher->regex)
        PLM_TRY(plm__regex_searcher_create(&searcher->regex));
    return searcher->has_young && count > 0 ? make_elder(searcher) : PLM_OK;
}

static bool find_literal(const plm_searcher *s, const plm_pattern *pattern, plm_span *match)
{
    const char *at = s->from >= s->count ? NULL
                                         : memmem(s->text + s->from, (size_t)(s->count - s->from),
                                                  pattern->text, (size_t)pattern->text_count);
    if (!at)
        return false;
    *match = (plm_span){at - s->text, at - s->text + pattern->text_count};
    return true;
}

static bool find_member(const plm_searcher *s, const plm_pattern *pattern, plm_span *match)
{
    int length;
    for (int64_t at = s->from; at < s->count; at += length)
        if (pattern->is_member(plm__unicode_next(s->text + at, &length))) {
            *match = (plm_span){at, at + length};
            return true;
        }
    return false;
}

static plm_status find_regex(plm_searcher *s, const plm_pattern *pattern, plm_span *match,
                             bool *found)
{
    for (;;) {
        *found = false;
        if (s->from > s->count)
            return PLM_OK;
        PLM_TRY(plm__regex_search(pattern->regex, s->regex, s->text ? s->text : "", s->count,
                                  s->from, &s->steps_left, match, found));
        if (!*found || match->start != match->end || match->end != s->last_end)
            return PLM_OK;
        s->from += s->from < s->count ? plm__unicode_length(s->text[s->from]) : 1;
    }
}

plm_status plm__searcher_next(plm_searcher *searcher, const plm_pattern *pattern, plm_span *match,
                              bool *found)
{
    bool is_found = false;
    if (pattern->regex)
        PLM_TRY(find_regex(searcher, pattern, match, &is_found));
    else if (pattern->text)
        is_found = find_literal(searcher, pattern, match);
    else
        is_found = find_member(searcher, pattern, match);
    if (is_found)
        searcher->from = searcher->last_end = match->end;
    *found = is_found;
    return PLM_OK;
}
