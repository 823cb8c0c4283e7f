/* SPDX-License-Identifier: MIT */
/*
 * Compiles and searches by PCRE2, compiled to machine code where the machine allows that. What
 * PCRE2 allocates comes from the host allocator, but for that code.
 */
#include "tokens/regex.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokens/unicode.h"

enum {
    EXPRESSION_MAX = 64 * 1024, /* bytes, before and after it is written anew */
    STEPS_FREE = 1000,          /* of a match: almost every match takes fewer */
    STEPS_FACTOR = 4,           /* one that takes more is tried again with so many times as many */
    MACHINE_STACK_LEAST = 32 * 1024, /* of compiled expressions, in bytes */
    MACHINE_STACK_MOST = 4 * 1024 * 1024,
    HEAP_MOST_KIB = 64 * 1024 /* of the interpreter, which takes over beyond that stack */
};

struct plm_regex {
    pcre2_code *code;
    bool is_compiled; /* to machine code */
    bool ran_out;     /* of host memory, while it was made */
};

struct plm_regex_searcher {
    pcre2_general_context *general;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL where there is no compiler */
    bool ran_out;
};

static void *take(PCRE2_SIZE bytes, void *ran_out)
{
    void *block = plm__host_malloc(bytes);
    if (!block)
        *(bool *)ran_out = true;
    return block;
}

static void give(void *block, void *ran_out)
{
    (void)ran_out;
    plm__host_free(block);
}

static plm_status out_of_memory(void)
{
    return plm_fail(PLM_ERROR_HOST_MEMORY, "out of host memory for a regular expression");
}

static plm_status refuse(const char *what, int error, size_t offset, const char *expression)
{
    PCRE2_UCHAR words[160] = "";
    pcre2_get_error_message(error, words, sizeof words);
    return plm_fail(PLM_ERROR_FORMAT, "%s: wanted a regular expression, found '%.60s': %s at %zu",
                    what, expression, (const char *)words, offset);
}

static plm_status compile(const char *what, const plm_text *words, plm_regex *regex)
{
    pcre2_general_context *general = pcre2_general_context_create(take, give, &regex->ran_out);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int error = 0;
    PCRE2_SIZE offset = 0;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        regex->code = pcre2_compile((PCRE2_SPTR)words->items, (PCRE2_SIZE)words->count,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                                        PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK,
                                    &error, &offset, context);
    }
    if (regex->code) /* without the compiler the interpreter does the same, slower */
        regex->is_compiled = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (regex->ran_out)
        return out_of_memory();
    return regex->code ? PLM_OK : refuse(what, error, offset, words->items);
}

plm_status plm__regex_create(const char *what, const char *expression, int64_t count,
                             plm_regex **regex)
{
    plm_text words = {0};
    plm_regex *made = NULL;
    plm_status status = PLM_OK;
    PLM_FAIL_IF(count > EXPRESSION_MAX, PLM_ERROR_FORMAT,
                "%s: wanted a regular expression of at most %d bytes, found %lld", what,
                EXPRESSION_MAX, (long long)count);
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    plm__text_add_bytes(&words, "", 0);
    PLM_TRY_DONE(plm__regex_words(what, expression, count, &words));
    PLM_TRY_DONE(plm__text_status(&words));
    status = compile(what, &words, made);
done:
    plm__text_fini(&words);
    return PLM_HAND_OVER(status, made, plm__regex_destroy, regex);
}

/* PCRE2 keeps the address of `ran_out` in what it allocates, and only hands it to `give`. */
void plm__regex_destroy(plm_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    plm__host_free(regex);
}

plm_status plm__regex_searcher_create(plm_regex_searcher **searcher)
{
    plm_regex_searcher *made = NULL;
    plm_status status = PLM_OK;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->general = pcre2_general_context_create(take, give, &made->ran_out);
    if (made->general) {
        made->data = pcre2_match_data_create(1, made->general);
        made->context = pcre2_match_context_create(made->general);
        made->stack =
            pcre2_jit_stack_create(MACHINE_STACK_LEAST, MACHINE_STACK_MOST, made->general);
    }
    if (made->ran_out || !made->data || !made->context)
        status = out_of_memory();
    else if (made->stack)
        pcre2_jit_stack_assign(made->context, NULL, made->stack);
    if (status == PLM_OK)
        pcre2_set_heap_limit(made->context, HEAP_MOST_KIB);
    return PLM_HAND_OVER(status, made, plm__regex_searcher_destroy, searcher);
}

void plm__regex_searcher_destroy(plm_regex_searcher *searcher)
{
    if (!searcher)
        return;
    pcre2_jit_stack_free(searcher->stack);
    pcre2_match_context_free(searcher->context);
    pcre2_match_data_free(searcher->data);
    pcre2_general_context_free(searcher->general);
    plm__host_free(searcher);
}

static plm_status tell_limit(int error)
{
    PCRE2_UCHAR words[160] = "";
    pcre2_get_error_message(error, words, sizeof words);
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "wanted the tokenizer's regular expression to match in bounded time, found "
                    "that it goes back without end over this text (%s); split the text, or take "
                    "another tokenizer",
                    (const char *)words);
}

static const uint32_t plainly = PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT;

/* The first match from `from` on, where no place takes more than the free steps. */
static int try_ahead(const plm_regex *regex, plm_regex_searcher *s, const char *text, int64_t count,
                     int64_t from)
{
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    pcre2_set_match_limit(s->context, STEPS_FREE);
    if (regex->is_compiled)
        result = pcre2_jit_match(regex->code, (PCRE2_SPTR)text, (PCRE2_SIZE)count, (PCRE2_SIZE)from,
                                 0, s->data, s->context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(regex->code, (PCRE2_SPTR)text, (PCRE2_SIZE)count, (PCRE2_SIZE)from,
                             plainly, s->data, s->context);
    return result;
}

/* A match at this place; what it takes beyond the free steps is charged. */
static int try_here(const plm_regex *regex, plm_regex_searcher *s, const char *text, int64_t count,
                    int64_t at, int64_t *steps_left)
{
    for (int64_t steps = STEPS_FREE;; steps *= STEPS_FACTOR) {
        if (steps > STEPS_FREE)
            *steps_left -= steps;
        pcre2_set_match_limit(s->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
        int result = pcre2_match(regex->code, (PCRE2_SPTR)text, (PCRE2_SIZE)count, (PCRE2_SIZE)at,
                                 plainly | PCRE2_ANCHORED, s->data, s->context);
        if (result != PCRE2_ERROR_MATCHLIMIT || *steps_left <= 0)
            return result;
    }
}

/* From `at` on to the place that took too many steps: *at is behind it when there is no match. */
static int try_costly(const plm_regex *regex, plm_regex_searcher *s, const char *text,
                      int64_t count, int64_t *at, int64_t *steps_left)
{
    int64_t before = *steps_left;
    int result = PCRE2_ERROR_NOMATCH;
    while (*at <= count && result == PCRE2_ERROR_NOMATCH && *steps_left == before) {
        result = try_here(regex, s, text, count, *at, steps_left);
        *at += *at < count ? plm__unicode_length(text[*at]) : 1;
    }
    return result;
}

/*
 * PCRE2 does not say how many steps a match took. So a place is given few, which cost nothing, and
 * one that wants more is charged with what it is given: the sum over a text is bounded, whatever
 * the expression.
 */
plm_status plm__regex_search(const plm_regex *regex, plm_regex_searcher *searcher, const char *text,
                             int64_t count, int64_t from, int64_t *steps_left, plm_span *match,
                             bool *found)
{
    int result = try_ahead(regex, searcher, text, count, from);
    for (int64_t at = from; result == PCRE2_ERROR_MATCHLIMIT && *steps_left > 0;) {
        result = try_costly(regex, searcher, text, count, &at, steps_left);
        if (result == PCRE2_ERROR_NOMATCH && at <= count)
            result = try_ahead(regex, searcher, text, count, at);
    }
    *found = false;
    if (result == PCRE2_ERROR_NOMATCH)
        return PLM_OK;
    if (searcher->ran_out) {
        searcher->ran_out = false;
        return out_of_memory();
    }
    if (result < 0)
        return tell_limit(result);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(searcher->data);
    *match = (plm_span){(int64_t)ends[0], (int64_t)ends[1]};
    if (match->end < match->start) /* by \K in a lookahead */
        match->end = match->start;
    *found = true;
    return PLM_OK;
}
