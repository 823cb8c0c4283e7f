/* SPDX-License-Identifier: MIT */
/*
 * A text is parted by added tokens; what lies between is normalized, parted by those that stand in
 * normalized text, cut into words, and the model makes tokens of each word.
 */
#include "tokens/encode.h"

#include <string.h>

#include "tokens/tokenizer_internal.h"
#include "tokens/unicode.h"

enum {
    GROWTH_MAX = 64,          /* bytes that normalizers make of one */
    GROWTH_LEAST = 64 * 1024, /* and that a short text may have in any case */
    IDLE_MAX = 64             /* encoders that wait for the next call */
};

/* A piece while pieces grow: its text is a place in `texts`. */
typedef struct piece_row {
    int64_t text, byte_count;
    plm_span source;
} piece_row;

typedef struct output {
    const plm_tokenizer *tokenizer;
    plm_encoder *encoder;
    const char *text; /* that is encoded */
    int64_t text_count;
    PLM_ARRAY(int32_t) ids;
    bool wants_pieces;
    PLM_ARRAY(piece_row) rows;
    PLM_ARRAY(char) texts;
} output;

/* Encoders. */

void plm__encoder_destroy(plm_encoder *encoder)
{
    plm__passage_fini(&encoder->passages[0]);
    plm__passage_fini(&encoder->passages[1]);
    plm__searcher_fini(&encoder->searcher);
    plm__words_fini(&encoder->words);
    plm__model_work_fini(&encoder->model);
    plm__host_free(encoder);
}

/* An idle encoder, or a new one. The tokenizer is const to its user: the list is not seen. */
static plm_status take(const plm_tokenizer *tokenizer, plm_encoder **encoder)
{
    plm_tokenizer *t = (plm_tokenizer *)(uintptr_t)tokenizer;
    pthread_mutex_lock(&t->lock);
    plm_encoder *taken = t->idle;
    if (taken)
        t->idle = taken->next;
    pthread_mutex_unlock(&t->lock);
    if (!taken)
        PLM_TRY(plm__host_alloc(sizeof *taken, &taken));
    taken->next = NULL;
    *encoder = taken;
    return PLM_OK;
}

static void give_back(const plm_tokenizer *tokenizer, plm_encoder *encoder)
{
    plm_tokenizer *t = (plm_tokenizer *)(uintptr_t)tokenizer;
    int waiting = 0;
    pthread_mutex_lock(&t->lock);
    for (const plm_encoder *at = t->idle; at; at = at->next)
        waiting++;
    if (waiting < IDLE_MAX) {
        encoder->next = t->idle;
        t->idle = encoder;
    }
    pthread_mutex_unlock(&t->lock);
    if (waiting >= IDLE_MAX)
        plm__encoder_destroy(encoder);
}

/* Pushing. */

/* Sources are whole characters. */
static plm_span whole_characters(const output *o, plm_span span)
{
    while (span.start > 0 && span.start < o->text_count &&
           ((unsigned char)o->text[span.start] & 0xc0) == 0x80)
        span.start--;
    while (span.end < o->text_count && ((unsigned char)o->text[span.end] & 0xc0) == 0x80)
        span.end++;
    return span;
}

static plm_status push(output *o, int32_t id, const char *piece, int64_t count, plm_span source)
{
    PLM_TRY(PLM_ARRAY_PUSH(&o->ids, id));
    if (!o->wants_pieces)
        return PLM_OK;
    piece_row row = {o->texts.count, count, whole_characters(o, source)};
    PLM_TRY(PLM_ARRAY_PUSH(&o->rows, row));
    PLM_TRY(PLM_ARRAY_RESERVE(&o->texts, o->texts.count + count + 1));
    if (count > 0)
        memcpy(o->texts.items + o->texts.count, piece, (size_t)count);
    o->texts.items[o->texts.count + count] = '\0';
    o->texts.count += count + 1;
    return PLM_OK;
}

static plm_status push_special(output *o, const plm_ids *ids)
{
    for (int64_t i = 0; i < ids->count; i++) {
        size_t count = 0;
        const char *text = plm_tokenizer_token(o->tokenizer, ids->items[i], &count);
        PLM_TRY(push(o, ids->items[i], text, (int64_t)count, (plm_span){0, 0}));
    }
    return PLM_OK;
}

static plm_status push_added(output *o, const plm_passage *passage, plm_stretch stretch)
{
    plm_span span = stretch.span;
    return push(o, stretch.token->id, passage->bytes + span.start, span.end - span.start,
                plm__passage_source(passage, span));
}

/* The tokens that the model made of a word. */
static plm_status push_tokens(output *o, const plm_passage *passage, plm_span word)
{
    const plm_model_tokens *tokens = &o->encoder->model.tokens;
    for (int64_t i = 0; i < tokens->count; i++) {
        const plm_model_token *token = &tokens->items[i];
        if (!o->wants_pieces) {
            PLM_TRY(PLM_ARRAY_PUSH(&o->ids, token->id));
            continue;
        }
        plm_span span = {word.start + token->start, word.start + token->start + token->count};
        const char *piece = passage->bytes + span.start;
        int64_t count = token->count;
        if (!token->is_text)
            piece = plm__vocabulary_text(&o->tokenizer->model.vocabulary, token->id, &count);
        PLM_TRY(push(o, token->id, piece, piece ? count : 0, plm__passage_source(passage, span)));
    }
    return PLM_OK;
}

/* Encoding. */

/* A stretch of normalized text between added tokens. */
static plm_status encode_stretch(output *o, const plm_passage *passage, plm_span span)
{
    plm_encoder *e = o->encoder;
    e->words.passage = passage;
    e->words.words.count = 0;
    PLM_TRY(PLM_ARRAY_PUSH(&e->words.words, span));
    PLM_TRY(plm__pre_tokenizer_apply(&o->tokenizer->pre_tokenizer, &e->words));
    for (int64_t i = 0; i < e->words.words.count; i++) {
        plm_span word = e->words.words.items[i];
        e->model.tokens.count = 0;
        PLM_TRY(plm__model_encode(&o->tokenizer->model, &e->model,
                                  e->words.passage->bytes + word.start, word.end - word.start));
        PLM_TRY(push_tokens(o, e->words.passage, word));
    }
    return PLM_OK;
}

/* A stretch of the text itself between added tokens. */
static plm_status encode_raw(output *o, plm_span span)
{
    plm_encoder *e = o->encoder;
    plm_passage *passage = &e->passages[0], *spare = &e->passages[1];
    plm_added_walk walk = {0};
    plm_stretch stretch;
    plm__passage_borrow(passage, o->text + span.start, span.end - span.start, span.start);
    PLM_TRY(plm__normalizer_apply(&o->tokenizer->normalizer, &e->searcher, e->words.keeps_sources,
                                  e->words.limit, &passage, &spare));
    while (plm__added_tokens_next(&o->tokenizer->added, true, passage->bytes, passage->count, &walk,
                                  &stretch))
        PLM_TRY(stretch.token ? push_added(o, passage, stretch)
                              : encode_stretch(o, passage, stretch.span));
    return PLM_OK;
}

static plm_status encode_text(output *o, unsigned wanted)
{
    plm_added_walk walk = {0};
    plm_stretch stretch;
    plm_passage whole = {0};
    plm__passage_borrow(&whole, o->text, o->text_count, 0);
    if (wanted & PLM_ENCODE_SPECIAL)
        PLM_TRY(push_special(o, &o->tokenizer->post_processor.before));
    while (plm__added_tokens_next(&o->tokenizer->added, false, o->text, o->text_count, &walk,
                                  &stretch))
        PLM_TRY(stretch.token ? push_added(o, &whole, stretch) : encode_raw(o, stretch.span));
    if (wanted & PLM_ENCODE_SPECIAL)
        PLM_TRY(push_special(o, &o->tokenizer->post_processor.behind));
    return PLM_OK;
}

/* Hands the output over. */
static plm_status finish(output *o, plm_encoding *encoding)
{
    plm_piece *pieces = NULL;
    if (o->wants_pieces)
        PLM_TRY(plm__host_alloc((size_t)(o->ids.count + 1) * sizeof *pieces, &pieces));
    for (int64_t i = 0; i < o->rows.count; i++) {
        const piece_row *row = &o->rows.items[i];
        pieces[i] = (plm_piece){.text = o->texts.items + row->text,
                                .byte_count = (size_t)row->byte_count,
                                .start = (size_t)row->source.start,
                                .end = (size_t)row->source.end};
    }
    *encoding = (plm_encoding){
        .ids = o->ids.items, .pieces = pieces, .count = o->ids.count, .texts = o->texts.items};
    o->ids.items = NULL;
    o->texts.items = NULL;
    return PLM_OK;
}

static plm_status check_text(const char *text, size_t byte_count, bool *has_young)
{
    PLM_FAIL_IF(byte_count > PLM_TOKENIZER_TEXT_MAX, PLM_ERROR_ARGUMENT,
                "wanted a text of at most %zu bytes, found %zu; encode it in parts",
                PLM_TOKENIZER_TEXT_MAX, byte_count);
    int64_t wrong = plm__unicode_check(text, (int64_t)byte_count, has_young);
    PLM_FAIL_IF(wrong >= 0, PLM_ERROR_ARGUMENT,
                "wanted a text in UTF-8, found byte 0x%02x at %lld, which is none; convert it "
                "first (iconv -f latin1 -t utf-8)",
                (unsigned char)text[wrong], (long long)wrong);
    return PLM_OK;
}

plm_status plm_tokenizer_encode(const plm_tokenizer *tokenizer, const char *text, size_t byte_count,
                                unsigned wanted, plm_encoding *encoding)
{
    output o = {.tokenizer = tokenizer,
                .text = text,
                .text_count = (int64_t)byte_count,
                .wants_pieces = (wanted & PLM_ENCODE_PIECES) != 0};
    plm_status status = PLM_OK;
    bool has_young;
    PLM_TRY(check_text(text, byte_count, &has_young));
    PLM_TRY(take(tokenizer, &o.encoder));
    plm__searcher_allow(&o.encoder->searcher, o.text_count, has_young);
    o.encoder->words.searcher = &o.encoder->searcher;
    o.encoder->words.keeps_sources = o.wants_pieces || tokenizer->wants_sources;
    int64_t limit = GROWTH_MAX * o.text_count + GROWTH_LEAST;
    o.encoder->words.limit = limit < INT32_MAX ? limit : INT32_MAX;
    PLM_TRY_DONE(encode_text(&o, wanted));
    status = finish(&o, encoding);
done:
    give_back(tokenizer, o.encoder);
    PLM_ARRAY_FREE(&o.ids);
    PLM_ARRAY_FREE(&o.rows);
    PLM_ARRAY_FREE(&o.texts);
    return status;
}

void plm_encoding_fini(plm_encoding *encoding)
{
    plm__host_free(encoding->ids);
    plm__host_free(encoding->pieces);
    plm__host_free(encoding->texts);
    memset(encoding, 0, sizeof *encoding);
}
