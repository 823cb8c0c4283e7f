/* SPDX-License-Identifier: MIT */
/*
 * The file's kinds come down to four: cut where a pattern matches, begin with a blank, write blanks
 * as another character, write bytes as characters. An empty word is dropped.
 */
#include "tokens/pre_tokenizer.h"

#include <string.h>

#include "tokens/byte_level.h"
#include "tokens/unicode.h"

/* What happens to a match. */
typedef enum behavior {
    REMOVED,
    ISOLATED,
    MERGED_WITH_PREVIOUS,
    MERGED_WITH_NEXT,
    CONTIGUOUS, /* matches side by side are one word */
    BEHAVIOR_COUNT
} behavior;

static const char *const behavior_names[BEHAVIOR_COUNT] = {
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous",
};

/* Whether a text begins with a mark that it would otherwise be given. */
typedef enum prepend {
    PREPEND_ALWAYS,
    PREPEND_FIRST, /* only what stands at the start of the whole text */
    PREPEND_NEVER,
    PREPEND_COUNT
} prepend;

static const char *const prepend_names[PREPEND_COUNT] = {"always", "first", "never"};

typedef enum cut_kind { CUT_SPLIT, CUT_MARK, CUT_BYTES, CUT_LENGTH } cut_kind;

enum { MARK_MAX = 8 };

struct plm_cut {
    cut_kind kind;
    plm_pattern pattern; /* CUT_SPLIT */
    behavior behavior;
    bool inverts;        /* what lies between the matches counts as matches */
    char mark[MARK_MAX]; /* CUT_MARK: blanks become it and words begin with it */
    int mark_count;
    prepend prepend;
    int64_t length; /* CUT_LENGTH: characters a word */
};

static const char gpt2_words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Cutting. */

static plm_status push_word(plm_words *w, int64_t start, int64_t end)
{
    return start == end ? PLM_OK : PLM_ARRAY_PUSH(&w->next, (plm_span){start, end});
}

/*
 * A piece is a match when its place among the pieces says so: matches and what lies between take
 * turns, empty ones too, beginning with what lies before the first match.
 */
static plm_status find_pieces(const plm_cut *cut, plm_words *w, plm_span word)
{
    int64_t last = 0, count = word.end - word.start;
    w->pieces.count = 0;
    PLM_TRY(plm__searcher_begin(w->searcher, &cut->pattern, w->passage->bytes + word.start, count));
    for (;;) {
        plm_span match;
        bool found;
        PLM_TRY(plm__searcher_next(w->searcher, &cut->pattern, &match, &found));
        if (!found)
            break;
        PLM_TRY(PLM_ARRAY_PUSH(&w->pieces, (plm_span){last, match.start}));
        PLM_TRY(PLM_ARRAY_PUSH(&w->pieces, match));
        last = match.end;
    }
    PLM_TRY(PLM_ARRAY_PUSH(&w->pieces, (plm_span){last, count}));
    return PLM_OK;
}

/* The common case, without a list: every match a word, every stretch between a word. */
static plm_status isolate(const plm_cut *cut, plm_words *w, plm_span word)
{
    int64_t last = word.start;
    PLM_TRY(plm__searcher_begin(w->searcher, &cut->pattern, w->passage->bytes + word.start,
                                word.end - word.start));
    for (;;) {
        plm_span match;
        bool found;
        PLM_TRY(plm__searcher_next(w->searcher, &cut->pattern, &match, &found));
        if (!found)
            return push_word(w, last, word.end);
        PLM_TRY(push_word(w, last, word.start + match.start));
        PLM_TRY(push_word(w, word.start + match.start, word.start + match.end));
        last = word.start + match.end;
    }
}

typedef struct piece_walk {
    plm_words *w;
    plm_span word;
    bool inverts;
} piece_walk;

static bool is_there(const piece_walk *walk, int64_t i)
{
    plm_span piece = walk->w->pieces.items[i];
    return i % 2 == 1 || piece.start != piece.end;
}

static bool is_match(const piece_walk *walk, int64_t i)
{
    return (i % 2 == 1) != walk->inverts;
}

/* Goes through the pieces forwards or backwards; a match joins what came before it on the way,
 * unless that was a match; then the words, in their order. */
static plm_status merge(const piece_walk *walk, bool backwards)
{
    plm_words *w = walk->w;
    int64_t first = w->next.count, count = w->pieces.count;
    bool was_match = false;
    for (int64_t step = 0; step < count; step++) {
        int64_t i = backwards ? count - 1 - step : step;
        if (!is_there(walk, i))
            continue;
        plm_span piece = {walk->word.start + w->pieces.items[i].start,
                          walk->word.start + w->pieces.items[i].end};
        bool joins = is_match(walk, i) && !was_match && w->next.count > first;
        was_match = is_match(walk, i);
        if (!joins)
            PLM_TRY(PLM_ARRAY_PUSH(&w->next, piece));
        else if (backwards)
            w->next.items[w->next.count - 1].start = piece.start;
        else
            w->next.items[w->next.count - 1].end = piece.end;
    }
    for (int64_t a = first, b = w->next.count - 1; backwards && a < b; a++, b--) {
        plm_span kept = w->next.items[a];
        w->next.items[a] = w->next.items[b];
        w->next.items[b] = kept;
    }
    int64_t kept = first; /* empty words go */
    for (int64_t i = first; i < w->next.count; i++)
        if (w->next.items[i].start != w->next.items[i].end)
            w->next.items[kept++] = w->next.items[i];
    w->next.count = kept;
    return PLM_OK;
}

/* Pieces of one kind side by side, with nothing between, are one word. */
static plm_status join_alike(const piece_walk *walk)
{
    plm_words *w = walk->w;
    int64_t start = walk->word.start, end = walk->word.start;
    bool was_match = false;
    for (int64_t i = 0; i < w->pieces.count; i++) {
        if (!is_there(walk, i))
            continue;
        if (is_match(walk, i) != was_match) {
            PLM_TRY(push_word(w, start, end));
            start = end;
        }
        was_match = is_match(walk, i);
        end = walk->word.start + w->pieces.items[i].end;
    }
    return push_word(w, start, end);
}

static plm_status drop_matches(const piece_walk *walk)
{
    plm_words *w = walk->w;
    for (int64_t i = 0; i < w->pieces.count; i++)
        if (!is_match(walk, i))
            PLM_TRY(push_word(w, walk->word.start + w->pieces.items[i].start,
                              walk->word.start + w->pieces.items[i].end));
    return PLM_OK;
}

static plm_status split(const plm_cut *cut, plm_words *w, plm_span word)
{
    piece_walk walk = {.w = w, .word = word, .inverts = cut->inverts};
    if (cut->behavior == ISOLATED)
        return isolate(cut, w, word);
    PLM_TRY(find_pieces(cut, w, word));
    if (cut->behavior == REMOVED)
        return drop_matches(&walk);
    if (cut->behavior == CONTIGUOUS)
        return join_alike(&walk);
    return merge(&walk, cut->behavior == MERGED_WITH_NEXT);
}

static plm_status cut_lengths(const plm_cut *cut, plm_words *w, plm_span word)
{
    int64_t start = word.start, characters = 0;
    for (int64_t at = word.start; at < word.end;) {
        at += plm__unicode_length(w->passage->bytes[at]);
        if (++characters == cut->length) {
            PLM_TRY(push_word(w, start, at));
            start = at;
            characters = 0;
        }
    }
    return push_word(w, start, word.end);
}

/* Writing anew: a word of the passage becomes a word of another. */

static bool starts_with(const plm_words *w, plm_span word, const char *text, int count)
{
    return word.end - word.start >= count &&
           memcmp(w->passage->bytes + word.start, text, (size_t)count) == 0;
}

static void write_marks(const plm_cut *cut, const plm_words *w, plm_span word, plm_passage *out)
{
    const plm_passage *in = w->passage;
    bool has_mark = starts_with(w, word, cut->mark, cut->mark_count) ||
                    starts_with(w, word, " ", 1); /* which becomes one */
    bool is_first = plm__passage_source(in, (plm_span){word.start, word.start}).start == 0;
    if (!has_mark &&
        (cut->prepend == PREPEND_ALWAYS || (cut->prepend == PREPEND_FIRST && is_first)))
        plm__passage_replace(out, in, (plm_span){word.start, word.start}, cut->mark,
                             cut->mark_count);
    int64_t copied = word.start;
    for (int64_t at = word.start; at < word.end && cut->mark[0] != ' '; at++)
        if (in->bytes[at] == ' ') {
            plm__passage_copy(out, in, (plm_span){copied, at});
            plm__passage_replace(out, in, (plm_span){at, at + 1}, cut->mark, cut->mark_count);
            copied = at + 1;
        }
    plm__passage_copy(out, in, (plm_span){copied, word.end});
}

static void write_bytes(const plm_words *w, plm_span word, plm_passage *out)
{
    const plm_passage *in = w->passage;
    int64_t copied = word.start;
    for (int64_t at = word.start; at < word.end; at++) {
        uint32_t point = plm__byte_level_point((uint8_t)in->bytes[at]);
        char bytes[4];
        if (point == (uint8_t)in->bytes[at] && point < 0x80)
            continue;
        plm__passage_copy(out, in, (plm_span){copied, at});
        plm__passage_replace(out, in, (plm_span){at, at + 1}, bytes,
                             plm__unicode_put(point, bytes));
        copied = at + 1;
    }
    plm__passage_copy(out, in, (plm_span){copied, word.end});
}

static plm_status rewrite(const plm_cut *cut, plm_words *w)
{
    plm_passage *out = &w->written[w->turn];
    plm__passage_begin(out, w->keeps_sources, w->limit);
    for (int64_t i = 0; i < w->words.count; i++) {
        int64_t start = out->count;
        if (cut->kind == CUT_MARK)
            write_marks(cut, w, w->words.items[i], out);
        else
            write_bytes(w, w->words.items[i], out);
        PLM_TRY(push_word(w, start, out->count));
    }
    w->passage = out;
    w->turn = !w->turn;
    return plm__passage_status(out);
}

plm_status plm__pre_tokenizer_apply(const plm_pre_tokenizer *pre_tokenizer, plm_words *words)
{
    plm_words *w = words;
    w->turn = 0;
    for (int64_t i = 0; i < pre_tokenizer->cuts.count; i++) {
        const plm_cut *cut = &pre_tokenizer->cuts.items[i];
        w->next.count = 0;
        if (cut->kind == CUT_MARK || cut->kind == CUT_BYTES) {
            PLM_TRY(rewrite(cut, w));
        } else {
            for (int64_t k = 0; k < w->words.count; k++)
                PLM_TRY(cut->kind == CUT_SPLIT ? split(cut, w, w->words.items[k])
                                               : cut_lengths(cut, w, w->words.items[k]));
        }
        plm_spans was = w->words;
        w->words = w->next;
        w->next = was;
    }
    return PLM_OK;
}

void plm__words_fini(plm_words *words)
{
    plm__passage_fini(&words->written[0]);
    plm__passage_fini(&words->written[1]);
    PLM_ARRAY_FREE(&words->words);
    PLM_ARRAY_FREE(&words->next);
    PLM_ARRAY_FREE(&words->pieces);
}

bool plm__pre_tokenizer_wants_sources(const plm_pre_tokenizer *pre_tokenizer)
{
    for (int64_t i = 0; i < pre_tokenizer->cuts.count; i++)
        if (pre_tokenizer->cuts.items[i].kind == CUT_MARK &&
            pre_tokenizer->cuts.items[i].prepend == PREPEND_FIRST)
            return true;
    return false;
}

/* Reading. */

static plm_status push(plm_pre_tokenizer *p, const plm_part *part, plm_cut cut)
{
    if (p->cuts.count >= PLM_PART_STEPS_MAX)
        return plm__part_refuse(part, NULL, "at most 64 steps", part->object);
    return PLM_ARRAY_PUSH(&p->cuts, cut);
}

static plm_status push_class(plm_pre_tokenizer *p, const plm_part *part,
                             plm_character_class *is_member, behavior chosen)
{
    plm_cut cut = {.kind = CUT_SPLIT, .behavior = chosen, .pattern = {.is_member = is_member}};
    return push(p, part, cut);
}

/* One of some names under `key`; absent and null leave *value as it is. */
static plm_status read_name(const plm_part *part, const char *key, const char *const *names,
                            int count, int *value)
{
    const char *text;
    int64_t length;
    PLM_TRY(plm__part_text(part, key, false, &text, &length));
    if (!text)
        return PLM_OK;
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return PLM_OK;
        }
    return plm__part_refuse(part, key, "a name that is known here",
                            json_object_get(part->object, key));
}

static plm_status read_split(const plm_part *part, plm_pre_tokenizer *p)
{
    int chosen = -1;
    bool inverts = false;
    PLM_TRY(read_name(part, "behavior", behavior_names, BEHAVIOR_COUNT, &chosen));
    PLM_TRY(plm__part_bool(part, "invert", &inverts));
    if (chosen < 0)
        return plm__part_refuse(part, "behavior", "what happens to a match", NULL);
    plm_cut cut = {.kind = CUT_SPLIT, .behavior = (behavior)chosen, .inverts = inverts};
    PLM_TRY(push(p, part, cut));
    return plm__part_pattern(part, "pattern", &p->cuts.items[p->cuts.count - 1].pattern);
}

static plm_status read_byte_level(const plm_part *part, plm_pre_tokenizer *p)
{
    bool begins_blank = true, uses_regex = true;
    PLM_TRY(plm__part_bool(part, "add_prefix_space", &begins_blank));
    PLM_TRY(plm__part_bool(part, "use_regex", &uses_regex));
    plm_cut blank = {.kind = CUT_MARK, .mark = " ", .mark_count = 1, .prepend = PREPEND_ALWAYS};
    if (begins_blank)
        PLM_TRY(push(p, part, blank));
    if (uses_regex) {
        PLM_TRY(push(p, part, (plm_cut){.kind = CUT_SPLIT, .behavior = ISOLATED}));
        PLM_TRY(plm__pattern_regex("ByteLevel", gpt2_words, sizeof gpt2_words - 1,
                                   &p->cuts.items[p->cuts.count - 1].pattern));
    }
    return push(p, part, (plm_cut){.kind = CUT_BYTES});
}

/* The one character under `key`, *count its bytes. */
static plm_status read_character(const plm_part *part, const char *key, const char **text,
                                 int64_t *count)
{
    PLM_TRY(plm__part_text(part, key, true, text, count));
    if (*count == 0 || plm__unicode_length(**text) != *count)
        return plm__part_refuse(part, key, "one character", json_object_get(part->object, key));
    return PLM_OK;
}

static plm_status read_metaspace(const plm_part *part, plm_pre_tokenizer *p)
{
    const char *mark;
    int64_t count;
    bool splits = true, begins = true; /* add_prefix_space: what older files say */
    PLM_TRY(read_character(part, "replacement", &mark, &count));
    PLM_TRY(plm__part_bool(part, "add_prefix_space", &begins));
    PLM_TRY(plm__part_bool(part, "split", &splits));
    int chosen = begins ? PREPEND_ALWAYS : PREPEND_NEVER;
    PLM_TRY(read_name(part, "prepend_scheme", prepend_names, PREPEND_COUNT, &chosen));
    plm_cut cut = {.kind = CUT_MARK, .mark_count = (int)count, .prepend = (prepend)chosen};
    memcpy(cut.mark, mark, (size_t)count);
    PLM_TRY(push(p, part, cut));
    if (!splits)
        return PLM_OK;
    PLM_TRY(push(p, part, (plm_cut){.kind = CUT_SPLIT, .behavior = MERGED_WITH_NEXT}));
    return plm__pattern_literal(mark, count, &p->cuts.items[p->cuts.count - 1].pattern);
}

static plm_status read_delimiter(const plm_part *part, plm_pre_tokenizer *p)
{
    const char *text;
    int64_t count;
    PLM_TRY(read_character(part, "delimiter", &text, &count));
    PLM_TRY(push(p, part, (plm_cut){.kind = CUT_SPLIT, .behavior = REMOVED}));
    return plm__pattern_literal(text, count, &p->cuts.items[p->cuts.count - 1].pattern);
}

static plm_status read_bert(const plm_part *part, plm_pre_tokenizer *p)
{
    PLM_TRY(push_class(p, part, plm__unicode_is_space, REMOVED));
    return push_class(p, part, plm__unicode_is_punctuation, ISOLATED);
}

static plm_status read_whitespace_split(const plm_part *part, plm_pre_tokenizer *p)
{
    return push_class(p, part, plm__unicode_is_space, REMOVED);
}

/* \w+|[^\w\s]+ */
static plm_status read_whitespace(const plm_part *part, plm_pre_tokenizer *p)
{
    PLM_TRY(push_class(p, part, plm__unicode_is_space, REMOVED));
    return push_class(p, part, plm__unicode_is_word, CONTIGUOUS);
}

static plm_status read_digits(const plm_part *part, plm_pre_tokenizer *p)
{
    bool parts = false;
    PLM_TRY(plm__part_bool(part, "individual_digits", &parts));
    return push_class(p, part, plm__unicode_is_numeric, parts ? ISOLATED : CONTIGUOUS);
}

static plm_status read_punctuation(const plm_part *part, plm_pre_tokenizer *p)
{
    int chosen = ISOLATED;
    PLM_TRY(read_name(part, "behavior", behavior_names, BEHAVIOR_COUNT, &chosen));
    return push_class(p, part, plm__unicode_is_punctuation, (behavior)chosen);
}

static plm_status read_length(const plm_part *part, plm_pre_tokenizer *p)
{
    plm_cut cut = {.kind = CUT_LENGTH, .length = 5};
    PLM_TRY(plm__part_int(part, "length", 1, INT32_MAX, &cut.length));
    return push(p, part, cut);
}

static const struct {
    const char *type;
    plm_status (*read)(const plm_part *part, plm_pre_tokenizer *p);
} kinds[] = {
    {"Split", read_split},
    {"ByteLevel", read_byte_level},
    {"Metaspace", read_metaspace},
    {"BertPreTokenizer", read_bert},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"CharDelimiterSplit", read_delimiter},
    {"FixedLength", read_length},
};

static plm_status read_part(const plm_part *part, void *user)
{
    const char *type;
    PLM_TRY(plm__part_type(part, &type));
    if (strcmp(type, "Sequence") == 0)
        return plm__part_each(part, "pretokenizers", read_part, user);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].read(part, user);
    return plm__part_refuse(part, "type", "a pre-tokenizer that is known here",
                            json_object_get(part->object, "type"));
}

plm_status plm__pre_tokenizer_read(const char *file, const json_t *value,
                                   plm_pre_tokenizer *pre_tokenizer)
{
    plm_part part;
    if (!value || json_is_null(value))
        return PLM_OK;
    PLM_TRY(plm__part_of(file, "pre_tokenizer", value, 0, &part));
    return read_part(&part, pre_tokenizer);
}

void plm__pre_tokenizer_fini(plm_pre_tokenizer *pre_tokenizer)
{
    for (int64_t i = 0; i < pre_tokenizer->cuts.count; i++)
        plm__pattern_fini(&pre_tokenizer->cuts.items[i].pattern);
    PLM_ARRAY_FREE(&pre_tokenizer->cuts);
}
