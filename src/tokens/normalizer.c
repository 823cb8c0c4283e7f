/* SPDX-License-Identifier: MIT */
/*
 * A step either changes single characters, by a function of the character, or has a function of its
 * own over the whole passage. The file's kinds are rows of a table that append steps.
 */
#include "tokens/normalizer.h"

#include <string.h>

#include "tokens/byte_level.h"
#include "tokens/normal_form.h"
#include "tokens/precompiled.h"
#include "tokens/unicode.h"

enum { MAPPED_MAX = 3, UNCHANGED = -1 };

/* What a character becomes: how many points, UNCHANGED for itself. */
typedef int map_character(uint32_t point, uint32_t mapped[MAPPED_MAX]);

typedef plm_status apply_step(const plm_normalizer_step *step, plm_searcher *searcher,
                              const plm_passage *in, plm_passage *out);

struct plm_normalizer_step {
    map_character *map; /* or, when NULL: */
    apply_step *apply;
    plm_normal_form form;
    bool strips_left, strips_right;
    plm_pattern pattern;
    char *text; /* that is put in, owned */
    int64_t text_count;
    plm_precompiled precompiled;
};

static int clean(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    mapped[0] = ' ';
    if (point == '\t' || point == '\n' || point == '\r')
        return 1;
    if (plm__unicode_kind(point) & PLM_KIND_CONTROL)
        return 0;
    return plm__unicode_is_space(point) && point != ' ' ? 1 : UNCHANGED;
}

static int set_apart(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    if (point < 0x3400 || !plm__unicode_is_ideograph(point))
        return UNCHANGED;
    mapped[0] = mapped[2] = ' ';
    mapped[1] = point;
    return 3;
}

static int strip_accent(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    (void)mapped;
    return point >= 0x300 && plm__unicode_kind(point) & PLM_KIND_ACCENT ? 0 : UNCHANGED;
}

static int strip_mark(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    (void)mapped;
    return point >= 0x300 && plm__unicode_kind(point) & PLM_KIND_MARK ? 0 : UNCHANGED;
}

static int lower(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    int count = plm__unicode_lower_case(point, mapped);
    return count == 1 && mapped[0] == point ? UNCHANGED : count;
}

/* What SentencePiece's plain rules make of controls and odd blanks. */
static int nmt(uint32_t point, uint32_t mapped[MAPPED_MAX])
{
    mapped[0] = ' ';
    if (point == '\t' || point == '\n' || point == '\f' || point == '\r')
        return 1;
    if ((point > 0 && point < 0x20) || point == 0x7f || point == 0x8f || point == 0x9f)
        return 0;
    bool is_blank = point == 0x1680 || (point >= 0x200b && point <= 0x200f) || point == 0x2028 ||
                    point == 0x2029 || point == 0x2581 || point == 0xfeff || point == 0xfffd;
    return is_blank ? 1 : UNCHANGED;
}

static void apply_map(map_character *map, const plm_passage *in, plm_passage *out)
{
    int64_t copied = 0;
    int length;
    for (int64_t at = 0; at < in->count; at += length) {
        uint32_t mapped[MAPPED_MAX];
        char bytes[4 * MAPPED_MAX];
        int count = map(plm__unicode_next(in->bytes + at, &length), mapped), byte_count = 0;
        if (count == UNCHANGED)
            continue;
        for (int i = 0; i < count; i++)
            byte_count += plm__unicode_put(mapped[i], bytes + byte_count);
        plm__passage_copy(out, in, (plm_span){copied, at});
        plm__passage_replace(out, in, (plm_span){at, at + length}, bytes, byte_count);
        copied = at + length;
    }
    plm__passage_copy(out, in, (plm_span){copied, in->count});
}

static plm_status apply_form(const plm_normalizer_step *step, plm_searcher *searcher,
                             const plm_passage *in, plm_passage *out)
{
    (void)searcher;
    return plm__normal_form_apply(step->form, in, out);
}

static plm_status apply_precompiled(const plm_normalizer_step *step, plm_searcher *searcher,
                                    const plm_passage *in, plm_passage *out)
{
    (void)searcher;
    return plm__precompiled_apply(&step->precompiled, in, out);
}

static plm_status apply_strip(const plm_normalizer_step *step, plm_searcher *searcher,
                              const plm_passage *in, plm_passage *out)
{
    (void)searcher;
    int64_t start = 0, end = in->count, before;
    int length;
    while (step->strips_left && start < end &&
           plm__unicode_is_space(plm__unicode_next(in->bytes + start, &length)))
        start += length;
    while (step->strips_right && end > start &&
           plm__unicode_is_space(plm__unicode_before(in->bytes, end, &before)))
        end = before;
    plm__passage_copy(out, in, (plm_span){start, end});
    return plm__passage_status(out);
}

static plm_status apply_prepend(const plm_normalizer_step *step, plm_searcher *searcher,
                                const plm_passage *in, plm_passage *out)
{
    (void)searcher;
    if (in->count > 0)
        plm__passage_replace(out, in, (plm_span){0, 0}, step->text, step->text_count);
    plm__passage_copy(out, in, (plm_span){0, in->count});
    return plm__passage_status(out);
}

static plm_status apply_replace(const plm_normalizer_step *step, plm_searcher *searcher,
                                const plm_passage *in, plm_passage *out)
{
    int64_t copied = 0;
    PLM_TRY(plm__searcher_begin(searcher, &step->pattern, in->bytes, in->count));
    for (;;) {
        plm_span match;
        bool found;
        PLM_TRY(plm__searcher_next(searcher, &step->pattern, &match, &found));
        if (!found)
            break;
        plm__passage_copy(out, in, (plm_span){copied, match.start});
        plm__passage_replace(out, in, match, step->text, step->text_count);
        copied = match.end;
    }
    plm__passage_copy(out, in, (plm_span){copied, in->count});
    return plm__passage_status(out);
}

static plm_status apply_byte_level(const plm_normalizer_step *step, plm_searcher *searcher,
                                   const plm_passage *in, plm_passage *out)
{
    (void)step;
    (void)searcher;
    for (int64_t at = 0; at < in->count; at++) {
        char bytes[4];
        int count = plm__unicode_put(plm__byte_level_point((uint8_t)in->bytes[at]), bytes);
        plm__passage_replace(out, in, (plm_span){at, at + 1}, bytes, count);
    }
    return plm__passage_status(out);
}

static plm_status push(plm_normalizer *normalizer, const plm_part *part, plm_normalizer_step step)
{
    if (normalizer->steps.count >= PLM_PART_STEPS_MAX)
        return plm__part_refuse(part, NULL, "at most 64 steps", part->object);
    return PLM_ARRAY_PUSH(&normalizer->steps, step);
}

static plm_status read_bert(const plm_part *part, plm_normalizer *normalizer)
{
    bool cleans = true, parts = true, lowers = true;
    PLM_TRY(plm__part_bool(part, "clean_text", &cleans));
    PLM_TRY(plm__part_bool(part, "handle_chinese_chars", &parts));
    PLM_TRY(plm__part_bool(part, "lowercase", &lowers));
    bool strips = lowers; /* where the file leaves that open */
    PLM_TRY(plm__part_bool(part, "strip_accents", &strips));
    if (cleans)
        PLM_TRY(push(normalizer, part, (plm_normalizer_step){.map = clean}));
    if (parts)
        PLM_TRY(push(normalizer, part, (plm_normalizer_step){.map = set_apart}));
    if (strips) {
        plm_normalizer_step form = {.apply = apply_form, .form = PLM_FORM_NFD};
        PLM_TRY(push(normalizer, part, form));
        PLM_TRY(push(normalizer, part, (plm_normalizer_step){.map = strip_accent}));
    }
    if (lowers)
        PLM_TRY(push(normalizer, part, (plm_normalizer_step){.map = lower}));
    return PLM_OK;
}

static plm_status read_strip(const plm_part *part, plm_normalizer *normalizer)
{
    plm_normalizer_step step = {.apply = apply_strip, .strips_left = true, .strips_right = true};
    PLM_TRY(plm__part_bool(part, "strip_left", &step.strips_left));
    PLM_TRY(plm__part_bool(part, "strip_right", &step.strips_right));
    return push(normalizer, part, step);
}

static plm_status copy_text(const char *text, int64_t count, plm_normalizer_step *step)
{
    step->text_count = count;
    PLM_TRY(plm__host_alloc((size_t)count + 1, &step->text));
    memcpy(step->text, text, (size_t)count);
    return PLM_OK;
}

/* The step is pushed first and owned by the list from then on. */
static plm_status read_prepend(const plm_part *part, plm_normalizer *normalizer)
{
    const char *text;
    int64_t count;
    PLM_TRY(plm__part_text(part, "prepend", true, &text, &count));
    PLM_TRY(push(normalizer, part, (plm_normalizer_step){.apply = apply_prepend}));
    return copy_text(text, count, &normalizer->steps.items[normalizer->steps.count - 1]);
}

static plm_status read_replace(const plm_part *part, plm_normalizer *normalizer)
{
    const char *text;
    int64_t count;
    PLM_TRY(plm__part_text(part, "content", true, &text, &count));
    PLM_TRY(push(normalizer, part, (plm_normalizer_step){.apply = apply_replace}));
    plm_normalizer_step *step = &normalizer->steps.items[normalizer->steps.count - 1];
    PLM_TRY(copy_text(text, count, step));
    return plm__part_pattern(part, "pattern", &step->pattern);
}

static plm_status read_precompiled(const plm_part *part, plm_normalizer *normalizer)
{
    PLM_TRY(push(normalizer, part, (plm_normalizer_step){.apply = apply_precompiled}));
    return plm__precompiled_read(part,
                                 &normalizer->steps.items[normalizer->steps.count - 1].precompiled);
}

/* A kind of the file: steps that it is as it stands, or a function that reads its fields. */
typedef struct normalizer_kind {
    const char *type;
    plm_status (*read)(const plm_part *part, plm_normalizer *normalizer);
    plm_normalizer_step step;
} normalizer_kind;

static const normalizer_kind kinds[] = {
    {"NFC", NULL, {.apply = apply_form, .form = PLM_FORM_NFC}},
    {"NFD", NULL, {.apply = apply_form, .form = PLM_FORM_NFD}},
    {"NFKC", NULL, {.apply = apply_form, .form = PLM_FORM_NFKC}},
    {"NFKD", NULL, {.apply = apply_form, .form = PLM_FORM_NFKD}},
    {"Lowercase", NULL, {.map = lower}},
    {"StripAccents", NULL, {.map = strip_mark}},
    {"Nmt", NULL, {.map = nmt}},
    {"ByteLevel", NULL, {.apply = apply_byte_level}},
    {"BertNormalizer", read_bert, {0}},
    {"Strip", read_strip, {0}},
    {"Prepend", read_prepend, {0}},
    {"Replace", read_replace, {0}},
    {"Precompiled", read_precompiled, {0}},
};

static plm_status read_part(const plm_part *part, void *user)
{
    plm_normalizer *normalizer = user;
    const char *type;
    PLM_TRY(plm__part_type(part, &type));
    if (strcmp(type, "Sequence") == 0)
        return plm__part_each(part, "normalizers", read_part, normalizer);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].read ? kinds[i].read(part, normalizer)
                                 : push(normalizer, part, kinds[i].step);
    return plm__part_refuse(part, "type", "a normalizer that is known here",
                            json_object_get(part->object, "type"));
}

plm_status plm__normalizer_read(const char *file, const json_t *value, plm_normalizer *normalizer)
{
    plm_part part;
    if (!value || json_is_null(value))
        return PLM_OK;
    PLM_TRY(plm__part_of(file, "normalizer", value, 0, &part));
    return read_part(&part, normalizer);
}

void plm__normalizer_fini(plm_normalizer *normalizer)
{
    for (int64_t i = 0; i < normalizer->steps.count; i++) {
        plm_normalizer_step *step = &normalizer->steps.items[i];
        plm__pattern_fini(&step->pattern);
        plm__host_free(step->text);
        plm__precompiled_fini(&step->precompiled);
    }
    PLM_ARRAY_FREE(&normalizer->steps);
}

plm_status plm__normalizer_apply(const plm_normalizer *normalizer, plm_searcher *searcher,
                                 bool keeps_sources, int64_t limit, plm_passage **passage,
                                 plm_passage **spare)
{
    for (int64_t i = 0; i < normalizer->steps.count; i++) {
        const plm_normalizer_step *step = &normalizer->steps.items[i];
        plm_passage *in = *passage, *out = *spare;
        plm__passage_begin(out, keeps_sources, limit);
        if (step->map) {
            apply_map(step->map, in, out);
            PLM_TRY(plm__passage_status(out));
        } else {
            PLM_TRY(step->apply(step, searcher, in, out));
        }
        *passage = out;
        *spare = in;
    }
    return PLM_OK;
}
