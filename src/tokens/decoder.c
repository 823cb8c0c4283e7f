/* SPDX-License-Identifier: MIT */
/* One function a kind of step: of a list of texts another. */
#include "tokens/decoder.h"

#include <string.h>

#include "base/utf8.h"
#include "tokens/byte_level.h"
#include "tokens/unicode.h"

typedef plm_status decode_step(const plm_decoder_step *step, const plm_texts *in, plm_texts *out);

struct plm_decoder_step {
    decode_step *decode;
    plm_pattern pattern;                                    /* Replace */
    char text[PLM_PART_TEXT_MAX], other[PLM_PART_TEXT_MAX]; /* what the kind needs */
    int64_t text_count, other_count;
    int64_t start, stop; /* Strip: characters */
    bool cleans, keeps_first;
};

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void plm__texts_fini(plm_texts *texts)
{
    plm__text_fini(&texts->bytes);
    PLM_ARRAY_FREE(&texts->spans);
}

static int64_t end_of(const plm_texts *texts)
{
    return texts->spans.count ? texts->spans.items[texts->spans.count - 1].end : 0;
}

plm_status plm__texts_end(plm_texts *texts)
{
    plm_span span = {end_of(texts), texts->bytes.count};
    PLM_TRY(plm__text_status(&texts->bytes));
    return PLM_ARRAY_PUSH(&texts->spans, span);
}

static const char *at(const plm_texts *texts, int64_t i)
{
    return texts->bytes.items ? texts->bytes.items + texts->spans.items[i].start : "";
}

static int64_t length_of(const plm_texts *texts, int64_t i)
{
    return texts->spans.items[i].end - texts->spans.items[i].start;
}

/* Appends `count` bytes with every `from` in them as `to`. */
static void add_replaced(plm_text *out, const char *text, int64_t count, const char *from,
                         int64_t from_count, const char *to, int64_t to_count)
{
    const char *end = text + count;
    for (const char *found; from_count > 0 && text < end; text = found + from_count) {
        found = memmem(text, (size_t)(end - text), from, (size_t)from_count);
        if (!found)
            break;
        plm__text_add_bytes(out, text, found - text);
        plm__text_add_bytes(out, to, to_count);
    }
    plm__text_add_bytes(out, text, end - text);
}

/* Appends bytes as UTF-8: each piece that could begin a character and does not become one is
 * U+FFFD, as Unicode recommends. */
static void add_lossy(plm_text *out, const char *bytes, int64_t count)
{
    int64_t good = 0;
    for (int64_t i = 0; i < count;) {
        int length = plm__utf8_decode(bytes + i, count - i, NULL);
        if (length > 0) {
            i += length;
            continue;
        }
        plm__text_add_bytes(out, bytes + good, i - good);
        plm__text_add_bytes(out, replacement, 3);
        uint8_t first = (uint8_t)bytes[i++];
        int expected = first >= 0xf0 && first <= 0xf4 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : 0;
        for (int k = 0; k < expected && i < count && ((uint8_t)bytes[i] & 0xc0) == 0x80; k++, i++) {
            uint8_t second = (uint8_t)bytes[i];
            bool is_wrong =
                k == 0 && ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                           (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f));
            if (is_wrong)
                break;
        }
        good = i;
    }
    plm__text_add_bytes(out, bytes + good, count - good);
}

/* A token whose characters are not all of the byte alphabet stands for itself. */
static bool add_byte_level(plm_text *out, const char *text, int64_t count)
{
    int64_t before = out->count;
    int length;
    for (int64_t i = 0; i < count; i += length) {
        int byte = plm__byte_level_byte(plm__unicode_next(text + i, &length));
        if (byte < 0) {
            out->count = before;
            return false;
        }
        char c = (char)byte;
        plm__text_add_bytes(out, &c, 1);
    }
    return true;
}

static plm_status decode_byte_level(const plm_decoder_step *step, const plm_texts *in,
                                    plm_texts *out)
{
    (void)step;
    plm_text bytes = {0};
    for (int64_t i = 0; i < in->spans.count; i++)
        if (!add_byte_level(&bytes, at(in, i), length_of(in, i)))
            plm__text_add_bytes(&bytes, at(in, i), length_of(in, i));
    plm_status status = plm__text_status(&bytes);
    if (status == PLM_OK && bytes.items)
        add_lossy(&out->bytes, bytes.items, bytes.count);
    plm__text_fini(&bytes);
    PLM_TRY(status);
    return plm__texts_end(out);
}

/* <0x41>: 65; -1 for other tokens. */
static int byte_token(const char *text, int64_t count)
{
    static const char digits[] = "0123456789abcdef";
    int value = 0;
    if (count != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        char digit = text[i] >= 'A' && text[i] <= 'F' ? (char)(text[i] - 'A' + 'a') : text[i];
        const char *found = digit ? strchr(digits, digit) : NULL;
        if (!found)
            return -1;
        value = 16 * value + (int)(found - digits);
    }
    return value;
}

/* Bytes side by side are a text, or when they are no UTF-8 as many U+FFFD. */
static plm_status end_bytes(plm_text *bytes, plm_texts *out)
{
    bool is_good = true;
    PLM_TRY(plm__text_status(bytes));
    if (bytes->count == 0)
        return PLM_OK;
    for (int64_t i = 0; i < bytes->count && is_good;) {
        int length = plm__utf8_decode(bytes->items + i, bytes->count - i, NULL);
        is_good = length > 0;
        i += length;
    }
    if (is_good)
        plm__text_add_bytes(&out->bytes, bytes->items, bytes->count);
    else
        plm__text_repeat(&out->bytes, replacement, bytes->count);
    bytes->count = 0;
    return plm__texts_end(out);
}

static plm_status decode_byte_fallback(const plm_decoder_step *step, const plm_texts *in,
                                       plm_texts *out)
{
    (void)step;
    plm_text bytes = {0};
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < in->spans.count; i++) {
        int byte = byte_token(at(in, i), length_of(in, i));
        if (byte >= 0) {
            char c = (char)byte;
            plm__text_add_bytes(&bytes, &c, 1);
            continue;
        }
        PLM_TRY_DONE(end_bytes(&bytes, out));
        plm__text_add_bytes(&out->bytes, at(in, i), length_of(in, i));
        PLM_TRY_DONE(plm__texts_end(out));
    }
    status = end_bytes(&bytes, out);
done:
    plm__text_fini(&bytes);
    return status;
}

static plm_status decode_fuse(const plm_decoder_step *step, const plm_texts *in, plm_texts *out)
{
    (void)step;
    if (in->bytes.count > 0)
        plm__text_add_bytes(&out->bytes, in->bytes.items, in->bytes.count);
    return plm__texts_end(out);
}

/* Blanks that English text does not have before its punctuation. */
static void add_clean(plm_text *out, const char *text, int64_t count)
{
    static const char *const words[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    plm_text from = {0}, to = {0};
    plm__text_add_bytes(&from, text, count);
    for (size_t i = 0; i < sizeof words / sizeof *words && from.status == PLM_OK; i++) {
        to.count = 0;
        add_replaced(&to, from.items, from.count, words[i][0], (int64_t)strlen(words[i][0]),
                     words[i][1], (int64_t)strlen(words[i][1]));
        plm_text was = from;
        from = to;
        to = was;
    }
    if (from.status == PLM_OK)
        plm__text_add_bytes(out, from.items, from.count);
    else
        out->status = from.status;
    plm__text_fini(&from);
    plm__text_fini(&to);
}

static plm_status decode_wordpiece(const plm_decoder_step *step, const plm_texts *in,
                                   plm_texts *out)
{
    plm_text word = {0};
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < in->spans.count; i++) {
        const char *text = at(in, i);
        int64_t count = length_of(in, i), cut = 0;
        bool continues =
            count >= step->text_count && memcmp(text, step->text, (size_t)step->text_count) == 0;
        word.count = 0;
        if (i > 0 && continues)
            cut = step->text_count;
        else if (i > 0)
            plm__text_add_bytes(&word, " ", 1);
        plm__text_add_bytes(&word, text + cut, count - cut);
        PLM_TRY_DONE(plm__text_status(&word));
        if (step->cleans)
            add_clean(&out->bytes, word.items, word.count);
        else
            plm__text_add_bytes(&out->bytes, word.items, word.count);
        PLM_TRY_DONE(plm__texts_end(out));
    }
done:
    plm__text_fini(&word);
    return status;
}

/* The mark becomes a blank; those of the first token go, as the pre-tokenizer put one there. */
static plm_status decode_metaspace(const plm_decoder_step *step, const plm_texts *in,
                                   plm_texts *out)
{
    for (int64_t i = 0; i < in->spans.count; i++) {
        bool drops = i == 0 && !step->keeps_first;
        add_replaced(&out->bytes, at(in, i), length_of(in, i), step->text, step->text_count, " ",
                     drops ? 0 : 1);
        PLM_TRY(plm__texts_end(out));
    }
    return PLM_OK;
}

/* The mark of a word's end becomes a blank, but for the last word's. */
static plm_status decode_suffix(const plm_decoder_step *step, const plm_texts *in, plm_texts *out)
{
    for (int64_t i = 0; i < in->spans.count; i++) {
        add_replaced(&out->bytes, at(in, i), length_of(in, i), step->text, step->text_count, " ",
                     i + 1 < in->spans.count);
        PLM_TRY(plm__texts_end(out));
    }
    return PLM_OK;
}

/* Speech: a token that repeats the one before is one with it, padding goes. */
static plm_status decode_ctc(const plm_decoder_step *step, const plm_texts *in, plm_texts *out)
{
    plm_text word = {0}, clean = {0};
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < in->spans.count; i++) {
        if (i > 0 && length_of(in, i) == length_of(in, i - 1) &&
            memcmp(at(in, i), at(in, i - 1), (size_t)length_of(in, i)) == 0)
            continue;
        word.count = clean.count = 0;
        add_replaced(&word, at(in, i), length_of(in, i), step->text, step->text_count, "", 0);
        PLM_TRY_DONE(plm__text_status(&word));
        if (step->cleans && word.count > 0) {
            add_clean(&clean, word.items, word.count);
            PLM_TRY_DONE(plm__text_status(&clean));
            word.count = 0;
            add_replaced(&word, clean.items, clean.count, step->other, step->other_count, " ", 1);
        }
        if (word.count == 0)
            continue;
        plm__text_add_bytes(&out->bytes, word.items, word.count);
        PLM_TRY_DONE(plm__texts_end(out));
    }
done:
    plm__text_fini(&word);
    plm__text_fini(&clean);
    return status;
}

static plm_status decode_replace(const plm_decoder_step *step, const plm_texts *in, plm_texts *out)
{
    plm_searcher searcher = {0};
    plm_status status = PLM_OK;
    plm__searcher_allow(&searcher, in->bytes.count, true);
    for (int64_t i = 0; i < in->spans.count; i++) {
        const char *text = at(in, i);
        int64_t copied = 0, count = length_of(in, i);
        PLM_TRY_DONE(plm__searcher_begin(&searcher, &step->pattern, text, count));
        for (;;) {
            plm_span match;
            bool found;
            PLM_TRY_DONE(plm__searcher_next(&searcher, &step->pattern, &match, &found));
            if (!found)
                break;
            plm__text_add_bytes(&out->bytes, text + copied, match.start - copied);
            plm__text_add_bytes(&out->bytes, step->text, step->text_count);
            copied = match.end;
        }
        plm__text_add_bytes(&out->bytes, text + copied, count - copied);
        PLM_TRY_DONE(plm__texts_end(out));
    }
done:
    plm__searcher_fini(&searcher);
    return status;
}

/* Takes up to `start` and `stop` of one character off the ends of each token. */
static plm_status decode_strip(const plm_decoder_step *step, const plm_texts *in, plm_texts *out)
{
    for (int64_t i = 0; i < in->spans.count; i++) {
        const char *text = at(in, i);
        int64_t start = 0, end = length_of(in, i), width = step->text_count;
        for (int64_t k = 0; k < step->start && end - start >= width &&
                            memcmp(text + start, step->text, (size_t)width) == 0;
             k++)
            start += width;
        for (int64_t k = 0; k < step->stop && end - start >= width &&
                            memcmp(text + end - width, step->text, (size_t)width) == 0;
             k++)
            end -= width;
        plm__text_add_bytes(&out->bytes, text + start, end - start);
        PLM_TRY(plm__texts_end(out));
    }
    return PLM_OK;
}

/* Reading. */

static plm_status push(plm_decoder *decoder, const plm_part *part, const plm_decoder_step *step)
{
    if (decoder->steps.count >= PLM_PART_STEPS_MAX)
        return plm__part_refuse(part, NULL, "at most 64 steps", part->object);
    return PLM_ARRAY_PUSH(&decoder->steps, *step);
}

/* A text of the file into a step; absent: `other`. */
static plm_status read_text(const plm_part *part, const char *key, const char *other,
                            char text[PLM_PART_TEXT_MAX], int64_t *count)
{
    const char *found;
    PLM_TRY(plm__part_text(part, key, other == NULL, &found, count));
    if (!found && other) {
        found = other;
        *count = (int64_t)strlen(other);
    }
    memcpy(text, found, (size_t)*count);
    return PLM_OK;
}

static plm_status read_wordpiece(const plm_part *part, plm_decoder_step *step)
{
    step->cleans = true;
    PLM_TRY(plm__part_bool(part, "cleanup", &step->cleans));
    return read_text(part, "prefix", "##", step->text, &step->text_count);
}

static plm_status read_metaspace(const plm_part *part, plm_decoder_step *step)
{
    const char *scheme;
    int64_t count;
    bool begins = true;
    PLM_TRY(plm__part_bool(part, "add_prefix_space", &begins));
    PLM_TRY(plm__part_text(part, "prepend_scheme", false, &scheme, &count));
    step->keeps_first = scheme ? strcmp(scheme, "never") == 0 : !begins;
    return read_text(part, "replacement", NULL, step->text, &step->text_count);
}

static plm_status read_suffix(const plm_part *part, plm_decoder_step *step)
{
    return read_text(part, "suffix", "</w>", step->text, &step->text_count);
}

static plm_status read_ctc(const plm_part *part, plm_decoder_step *step)
{
    step->cleans = true;
    PLM_TRY(plm__part_bool(part, "cleanup", &step->cleans));
    PLM_TRY(read_text(part, "pad_token", "<pad>", step->text, &step->text_count));
    return read_text(part, "word_delimiter_token", "|", step->other, &step->other_count);
}

static plm_status read_replace(const plm_part *part, plm_decoder_step *step)
{
    PLM_TRY(read_text(part, "content", NULL, step->text, &step->text_count));
    return plm__part_pattern(part, "pattern", &step->pattern);
}

static plm_status read_strip(const plm_part *part, plm_decoder_step *step)
{
    PLM_TRY(plm__part_int(part, "start", 0, INT32_MAX, &step->start));
    PLM_TRY(plm__part_int(part, "stop", 0, INT32_MAX, &step->stop));
    PLM_TRY(read_text(part, "content", NULL, step->text, &step->text_count));
    return step->text_count > 0 ? PLM_OK
                                : plm__part_refuse(part, "content", "one character",
                                                   json_object_get(part->object, "content"));
}

static const struct {
    const char *type;
    decode_step *decode;
    plm_status (*read)(const plm_part *part, plm_decoder_step *step); /* NULL: no fields */
} kinds[] = {
    {"ByteLevel", decode_byte_level, NULL},
    {"ByteFallback", decode_byte_fallback, NULL},
    {"Fuse", decode_fuse, NULL},
    {"WordPiece", decode_wordpiece, read_wordpiece},
    {"Metaspace", decode_metaspace, read_metaspace},
    {"BPEDecoder", decode_suffix, read_suffix},
    {"CTC", decode_ctc, read_ctc},
    {"Replace", decode_replace, read_replace},
    {"Strip", decode_strip, read_strip},
};

static plm_status read_part(const plm_part *part, void *user)
{
    plm_decoder *decoder = user;
    const char *type;
    PLM_TRY(plm__part_type(part, &type));
    if (strcmp(type, "Sequence") == 0)
        return plm__part_each(part, "decoders", read_part, decoder);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0) {
            static const plm_decoder_step none;
            PLM_TRY(push(decoder, part, &none));
            plm_decoder_step *step = &decoder->steps.items[decoder->steps.count - 1];
            step->decode = kinds[i].decode;
            return kinds[i].read ? kinds[i].read(part, step) : PLM_OK;
        }
    return plm__part_refuse(part, "type", "a decoder that is known here",
                            json_object_get(part->object, "type"));
}

plm_status plm__decoder_read(const char *file, const json_t *value, plm_decoder *decoder)
{
    plm_part part;
    if (!value || json_is_null(value))
        return PLM_OK;
    PLM_TRY(plm__part_of(file, "decoder", value, 0, &part));
    decoder->is_there = true;
    return read_part(&part, decoder);
}

void plm__decoder_fini(plm_decoder *decoder)
{
    for (int64_t i = 0; i < decoder->steps.count; i++)
        plm__pattern_fini(&decoder->steps.items[i].pattern);
    PLM_ARRAY_FREE(&decoder->steps);
}

plm_status plm__decoder_apply(const plm_decoder *decoder, plm_texts *texts, plm_text *text)
{
    plm_status status = PLM_OK;
    plm_texts next = {0};
    for (int64_t i = 0; i < decoder->steps.count; i++) {
        next.bytes.count = next.spans.count = 0;
        PLM_TRY_DONE(decoder->steps.items[i].decode(&decoder->steps.items[i], texts, &next));
        plm_texts was = *texts;
        *texts = next;
        next = was;
    }
    for (int64_t i = 0; i < texts->spans.count; i++) {
        if (i > 0 && !decoder->is_there)
            plm__text_add_bytes(text, " ", 1);
        plm__text_add_bytes(text, at(texts, i), length_of(texts, i));
    }
    status = plm__text_status(text);
done:
    plm__texts_fini(&next);
    return status;
}
