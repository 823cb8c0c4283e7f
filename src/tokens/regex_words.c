/* SPDX-License-Identifier: MIT */
/*
 * An expression in Oniguruma's words (its Ruby syntax) written in PCRE2's. Where the two agree the
 * text is copied; what differs:
 *
 *     \s \w \h and their opposites: the reference's characters, as classes
 *     \b \B: the edges of that \w
 *     \p{Name} of a script: the script alone, not the characters that others share with it
 *     \p{^Name}, \uHHHH: \P{Name}, \x{HHHH}
 *     (?m: where . matches a line's end: (?s:
 *     [a[bc]]: a class in a class; [a&&[^b]]: (?:(?=[a])[^b])
 */
#include "tokens/regex.h"

#include <string.h>

enum { SETS_MAX = 8 }; /* classes in one bracket that are joined by && */

/* What stands for an escape, inside brackets. Blank characters are Unicode's White_Space; a word's
 * characters are those that are alphabetic, marks, digits and connectors. */
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define NO_SPACE                                                                                   \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"       \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-"       \
    "\\x{10ffff}"
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"         \
    "\\x{1f169}\\x{1f170}-\\x{1f189}"
#define HEX "0-9a-fA-F"

typedef struct escape_row {
    char letter;
    const char *inside;  /* in brackets, NULL: PCRE2 has no word for it there */
    const char *outside; /* elsewhere */
} escape_row;

static const escape_row escapes[] = {
    {'s', SPACE, "[" SPACE "]"},
    {'S', NO_SPACE, "[^" SPACE "]"},
    {'w', WORD, "[" WORD "]"},
    {'W', NULL, "[^" WORD "]"},
    {'h', HEX, "[" HEX "]"},
    {'H', NULL, "[^" HEX "]"},
    {'b', "\\x08", "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"},
    {'B', NULL, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"},
};

/* The general categories, whose names both engines share. */
static const char *const categories[] = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu",  "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",  "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Any",
};

/* Names of properties that have another in PCRE2. */
static const char *const property_words[][2] = {
    {"Letter", "L"},          {"Mark", "M"},
    {"Number", "N"},          {"Punctuation", "P"},
    {"Symbol", "S"},          {"Separator", "Z"},
    {"Other", "C"},           {"Uppercase_Letter", "Lu"},
    {"Punct", "P"},           {"Lowercase_Letter", "Ll"},
    {"Decimal_Number", "Nd"},
};

typedef struct reader {
    const char *what;
    const char *at, *end;
    plm_text *words;
} reader;

static plm_status cannot(const reader *r, const char *found)
{
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "%s: wanted a regular expression that PCRE2 can say, found %s", r->what, found);
}

static void add(reader *r, const char *text)
{
    plm__text_add_bytes(r->words, text, (int64_t)strlen(text));
}

/* \p{Name} and \P{Name}; `at` is behind the letter. */
static plm_status property(reader *r, char letter)
{
    char name[48] = "";
    const char *close =
        r->at < r->end && *r->at == '{' ? memchr(r->at, '}', (size_t)(r->end - r->at)) : NULL;
    if (!close || close - r->at > (long)sizeof name)
        return cannot(r, "\\p without a name in braces");
    bool is_opposite = letter == 'P';
    const char *start = r->at + 1;
    if (*start == '^') {
        is_opposite = !is_opposite;
        start++;
    }
    memcpy(name, start, (size_t)(close - start));
    r->at = close + 1;
    for (size_t i = 0; i < sizeof property_words / sizeof *property_words; i++)
        if (strcmp(name, property_words[i][0]) == 0)
            memcpy(name, property_words[i][1], strlen(property_words[i][1]) + 1);
    bool is_category = false;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        is_category = is_category || strcmp(name, categories[i]) == 0;
    plm__text_add(r->words, "\\%c{%s%s}", is_opposite ? 'P' : 'p', is_category ? "" : "sc:", name);
    return PLM_OK;
}

static int hex_digits(const char *at, const char *end)
{
    int count = 0;
    while (at + count < end && count < 4 && strchr("0123456789abcdefABCDEF", at[count]) &&
           at[count])
        count++;
    return count;
}

/* Behind a backslash. */
static plm_status escape(reader *r, bool is_inside)
{
    if (r->at >= r->end)
        return cannot(r, "a backslash at the end");
    char letter = *r->at++;
    if (letter == 'p' || letter == 'P')
        return property(r, letter);
    if (letter == 'u' && hex_digits(r->at, r->end) == 4) {
        plm__text_add(r->words, "\\x{%.4s}", r->at);
        r->at += 4;
        return PLM_OK;
    }
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (escapes[i].letter == letter) {
            const char *word = is_inside ? escapes[i].inside : escapes[i].outside;
            if (!word)
                return cannot(r, "the opposite of a class inside brackets");
            add(r, word);
            return PLM_OK;
        }
    if (letter == 'Q' || letter == 'E') { /* plain letters there, quoting here */
        plm__text_add(r->words, "%c", letter);
        return PLM_OK;
    }
    plm__text_add_bytes(r->words, r->at - 2, 2);
    return PLM_OK;
}

/* Where a bracket that opens before `at` ends: behind its closing one; NULL: nowhere. */
static const char *class_end(const char *at, const char *end)
{
    int depth = 1;
    if (at < end && *at == '^')
        at++;
    if (at < end && *at == ']')
        at++;
    for (; at < end; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        else if (*at == '[')
            depth++;
        else if (*at == ']' && --depth == 0)
            return at + 1;
    }
    return NULL;
}

/* The members of a class up to `end`, its opening and closing bracket left out. */
static plm_status class_members(reader *r, const char *end, int depth)
{
    bool is_first = true;
    while (r->at < end) {
        char c = *r->at++;
        if (c == '\\') {
            PLM_TRY(escape(r, true));
        } else if (c == '[' && r->at < end && *r->at == ':') {
            const char *close = memmem(r->at, (size_t)(end - r->at), ":]", 2);
            if (!close)
                return cannot(r, "[: without :]");
            plm__text_add_bytes(r->words, r->at - 1, close + 2 - (r->at - 1));
            r->at = close + 2;
        } else if (c == '[') { /* a class in a class is a part of it */
            const char *close = class_end(r->at, end);
            if (!close || (r->at < end && *r->at == '^') || depth > SETS_MAX)
                return cannot(r, "an opposite class inside brackets");
            PLM_TRY(class_members(r, close - 1, depth + 1));
            r->at = close;
        } else if (c == ']' && is_first) {
            add(r, "\\]");
        } else {
            plm__text_add_bytes(r->words, r->at - 1, 1);
        }
        is_first = false;
    }
    return PLM_OK;
}

/* The next && of a class at its own level, or `end`. */
static const char *next_and(const char *at, const char *end)
{
    for (int depth = 0; at + 1 < end; at++) {
        if (*at == '\\')
            at++;
        else if (*at == '[')
            depth++;
        else if (*at == ']')
            depth--;
        else if (depth == 0 && at[0] == '&' && at[1] == '&')
            return at;
    }
    return end;
}

/* One of the sets that && joins: a class of its own in brackets, or bare members. */
static plm_status class_set(reader *r, const char *end)
{
    bool has_brackets = r->at < end && *r->at == '[' && class_end(r->at + 1, end) == end;
    if (has_brackets) {
        r->at++;
        end--;
    }
    bool is_opposite = has_brackets && r->at < end && *r->at == '^';
    r->at += is_opposite;
    add(r, is_opposite ? "[^" : "[");
    PLM_TRY(class_members(r, end, 0));
    add(r, "]");
    return PLM_OK;
}

/* The sets up to `end`: each but the last is looked ahead for. */
static plm_status joined_sets(reader *r, const char *end)
{
    add(r, "(?:");
    for (int sets = 0;; sets++) {
        const char *and = next_and(r->at, end);
        if (sets == SETS_MAX)
            return cannot(r, "too many classes joined by &&");
        if (and == end)
            break;
        add(r, "(?=");
        PLM_TRY(class_set(r, and));
        add(r, ")");
        r->at = and+2;
    }
    PLM_TRY(class_set(r, end));
    add(r, ")");
    return PLM_OK;
}

/* Behind an opening bracket. */
static plm_status class_words(reader *r)
{
    const char *close = class_end(r->at, r->end);
    if (!close)
        return cannot(r, "a class without its closing bracket");
    const char *end = close - 1;
    bool is_opposite = r->at < end && *r->at == '^';
    bool is_joined = next_and(r->at, end) != end;
    r->at += is_opposite;
    if (!is_joined) {
        add(r, is_opposite ? "[^" : "[");
        PLM_TRY(class_members(r, end, 0));
        add(r, "]");
    } else {
        add(r, is_opposite ? "(?:(?!" : "");
        PLM_TRY(joined_sets(r, end));
        add(r, is_opposite ? ")(?s:.))" : "");
    }
    r->at = close;
    return PLM_OK;
}

/* Behind "(?": the letters of options up to : or ), of which m means s. */
static void group_options(reader *r)
{
    const char *at = r->at;
    while (at < r->end && strchr("imx-", *at) && *at)
        at++;
    if (at == r->end || (*at != ':' && *at != ')'))
        return; /* a lookaround or a name */
    for (; r->at < at; r->at++)
        plm__text_add(r->words, "%c", *r->at == 'm' ? 's' : *r->at);
}

plm_status plm__regex_words(const char *what, const char *expression, int64_t count,
                            plm_text *words)
{
    reader r = {.what = what, .at = expression, .end = expression + count, .words = words};
    while (r.at < r.end) {
        char c = *r.at++;
        if (c == '\\') {
            PLM_TRY(escape(&r, false));
        } else if (c == '[') {
            PLM_TRY(class_words(&r));
        } else if (c == '}' && r.at < r.end && *r.at == '+') {
            return cannot(&r, "{n}+, which repeats a repetition there and is possessive here");
        } else {
            plm__text_add_bytes(words, r.at - 1, 1);
            if (c == '(' && r.end - r.at >= 1 && *r.at == '?') {
                add(&r, "?");
                r.at++;
                group_options(&r);
            }
        }
    }
    return PLM_OK;
}
