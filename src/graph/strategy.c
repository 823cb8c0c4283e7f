/* SPDX-License-Identifier: MIT */
/* The strategy as JSON: one table of fields, each with its reader. */
#include "graph/strategy.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/dtype.h"

static const char *const attention_texts[] = {
    [PLM_ATTENTION_FUSED] = "fused",
    [PLM_ATTENTION_PLAIN] = "plain",
    [PLM_ATTENTION_AUTO] = "auto",
};

static const char *const update_texts[] = {
    [PLM_UPDATE_LATE] = "late",
    [PLM_UPDATE_EARLY] = "early",
};

#define AUTO_TEXT "auto"

plm_strategy plm_strategy_default(void)
{
    return (plm_strategy){.micro_batch = 0,
                          .precision = PLM_DTYPE_F32,
                          .attention = PLM_ATTENTION_FUSED,
                          .head_chunks = 1,
                          .mlp_chunks = 1};
}

const char *plm_attention_text(plm_attention_form form)
{
    return (unsigned)form <= PLM_ATTENTION_AUTO ? attention_texts[form] : "unknown";
}

const char *plm_update_time_text(plm_update_time update)
{
    return (unsigned)update <= PLM_UPDATE_EARLY ? update_texts[update] : "unknown";
}

/* *count = a whole number of 1 or more. */
static plm_status read_count(const char *what, const char *name, const json_t *value,
                             int64_t *count)
{
    PLM_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 1, PLM_ERROR_ARGUMENT,
                "%s: wanted %s as a whole number of 1 or more", what, name);
    *count = json_integer_value(value);
    return PLM_OK;
}

static plm_status read_micro_batch(const char *what, const json_t *value, plm_strategy *strategy)
{
    return read_count(what, "micro_batch", value, &strategy->micro_batch);
}

static plm_status read_head_chunks(const char *what, const json_t *value, plm_strategy *strategy)
{
    return read_count(what, "head_chunks", value, &strategy->head_chunks);
}

static plm_status read_mlp_chunks(const char *what, const json_t *value, plm_strategy *strategy)
{
    return read_count(what, "mlp_chunks", value, &strategy->mlp_chunks);
}

static plm_status read_precision(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    plm_dtype precision;
    if (text && strcmp(text, AUTO_TEXT) == 0) {
        strategy->precision = PLM_PRECISION_AUTO;
        return PLM_OK;
    }
    PLM_FAIL_IF(
        !text || plm__dtype_parse(text, &precision) != PLM_OK || !plm__dtype_is_real(precision),
        PLM_ERROR_ARGUMENT, "%s: wanted precision \"fp32\", \"bf16\" or \"fp16\", found '%.40s'",
        what, text ? text : "no text");
    strategy->precision = precision;
    return PLM_OK;
}

static plm_status read_gradient(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    plm_dtype gradient;
    PLM_FAIL_IF(!text || plm__dtype_parse(text, &gradient) != PLM_OK ||
                    (gradient != PLM_DTYPE_F32 && gradient != PLM_DTYPE_BF16),
                PLM_ERROR_ARGUMENT, "%s: wanted gradient \"fp32\" or \"bf16\", found '%.40s'", what,
                text ? text : "no text");
    strategy->gradient = gradient;
    return PLM_OK;
}

static plm_status read_update(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    for (int time = 0; text && time <= PLM_UPDATE_EARLY; time++) {
        if (strcmp(text, update_texts[time]) == 0) {
            strategy->update = (plm_update_time)time;
            return PLM_OK;
        }
    }
    return plm_fail(PLM_ERROR_ARGUMENT, "%s: wanted update \"late\" or \"early\", found '%.40s'",
                    what, text ? text : "no text");
}

static plm_status read_attention(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    for (int form = 0; text && form <= PLM_ATTENTION_AUTO; form++) {
        if (strcmp(text, attention_texts[form]) == 0) {
            strategy->attention = (plm_attention_form)form;
            return PLM_OK;
        }
    }
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "%s: wanted attention \"fused\", \"plain\" or \"auto\", found '%s'", what,
                    text ? text : "no text");
}

/* The rungs, each with all that it includes; "attention" stands apart. */
static const struct {
    const char *name;
    uint32_t bits;
} rungs[] = {
    {"none", PLM_RECOMPUTE_NONE},
    {"act", PLM_RECOMPUTE_ACT},
    {"norm", PLM_RECOMPUTE_ACT | PLM_RECOMPUTE_NORM},
    {"mlp", PLM_RECOMPUTE_ACT | PLM_RECOMPUTE_NORM | PLM_RECOMPUTE_MLP},
    {"block", PLM_RECOMPUTE_ACT | PLM_RECOMPUTE_NORM | PLM_RECOMPUTE_MLP | PLM_RECOMPUTE_ATTENTION |
                  PLM_RECOMPUTE_BLOCK},
    {"attention", PLM_RECOMPUTE_ATTENTION},
};

enum { RUNG_COUNT = sizeof rungs / sizeof *rungs, ATTENTION_RUNG = RUNG_COUNT - 1 };

/* The rung of that name, -1 for none. */
static int find_rung(const char *name, size_t length)
{
    for (int i = 0; i < RUNG_COUNT; i++)
        if (strlen(rungs[i].name) == length && strncmp(rungs[i].name, name, length) == 0)
            return i;
    return -1;
}

/* What operations are called: letters, digits and ". _ -", with spaces between words. */
static bool can_be_name(const char *name, size_t length)
{
    size_t good =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._- ");
    bool is_auto = length == strlen(AUTO_TEXT) && strncmp(name, AUTO_TEXT, length) == 0;
    return length > 0 && length < PLM_RECOMPUTE_NAME_BYTES && good >= length && !is_auto &&
           name[0] != ' ' && name[length - 1] != ' ';
}

/* *bit = that of a name, which the strategy has from here on. */
static plm_status take_name(plm_strategy *strategy, const char *name, size_t length, uint32_t *bit)
{
    int32_t i = 0;
    while (i < strategy->recompute_name_count &&
           (strlen(strategy->recompute_names[i]) != length ||
            strncmp(strategy->recompute_names[i], name, length) != 0))
        i++;
    PLM_FAIL_IF(i == PLM_RECOMPUTE_NAMES_MAX, PLM_ERROR_ARGUMENT,
                "wanted at most %d operations by name for recompute, found '%.*s' beyond them",
                PLM_RECOMPUTE_NAMES_MAX, (int)length, name);
    if (i == strategy->recompute_name_count) {
        memcpy(strategy->recompute_names[i], name, length);
        strategy->recompute_names[i][length] = '\0';
        strategy->recompute_name_count++;
    }
    *bit = 1u << (PLM_RECOMPUTE_NAMES_SHIFT + i);
    return PLM_OK;
}

/* Of a sum's part; without a strategy there are no names. */
static plm_status parse_part(plm_strategy *strategy, const char *text, const char *part,
                             size_t length, uint32_t *bits)
{
    int rung = find_rung(part, length);
    if (rung >= 0) {
        *bits = rungs[rung].bits;
        return PLM_OK;
    }
    PLM_FAIL_IF(!strategy || !can_be_name(part, length), PLM_ERROR_ARGUMENT,
                "wanted recompute as none, act, norm, mlp, block, attention, a sum such as "
                "mlp+attention, %sor auto, found '%.60s'",
                strategy ? "operations by name such as act+attention.qkv, " : "", text);
    return take_name(strategy, part, length, bits);
}

/* On failure too the strategy may have more names. */
static plm_status parse_sum(plm_strategy *strategy, const char *text, uint32_t *bits)
{
    uint32_t made = 0, part_bits;
    if (strcmp(text, AUTO_TEXT) == 0) {
        *bits = PLM_RECOMPUTE_AUTO;
        return PLM_OK;
    }
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, "+");
        PLM_TRY(parse_part(strategy, text, part, length, &part_bits));
        made |= part_bits;
        part += length;
        if (!*part)
            break;
    }
    *bits = made;
    return PLM_OK;
}

plm_status plm__recompute_parse(const char *text, uint32_t *bits)
{
    return parse_sum(NULL, text, bits);
}

plm_status plm_strategy_recompute_parse(plm_strategy *strategy, const char *text, uint32_t *bits)
{
    int32_t names = strategy->recompute_name_count;
    plm_status status = parse_sum(strategy, text, bits);
    if (status != PLM_OK)
        strategy->recompute_name_count = names;
    return status;
}

/* Adds a part to a sum of `length` bytes that has room for it; returns the new length. */
static size_t add_part(char *text, size_t length, const char *part)
{
    int wrote =
        snprintf(text + length, PLM_RECOMPUTE_TEXT - length, "%s%s", length ? "+" : "", part);
    return length + (size_t)wrote;
}

const char *plm__recompute_format(const plm_strategy *strategy, uint32_t bits,
                                  char text[PLM_RECOMPUTE_TEXT])
{
    int best = 0;
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < ATTENTION_RUNG; i++)
        if ((rungs[i].bits & ~bits) == 0)
            best = i;
    if (bits & PLM_RECOMPUTE_AUTO)
        length = add_part(text, length, AUTO_TEXT);
    else if (best > 0)
        length = add_part(text, length, rungs[best].name);
    if ((bits & PLM_RECOMPUTE_ATTENTION) && !(bits & PLM_RECOMPUTE_BLOCK))
        length = add_part(text, length, rungs[ATTENTION_RUNG].name);
    for (int32_t i = 0; i < strategy->recompute_name_count; i++)
        if (bits >> (PLM_RECOMPUTE_NAMES_SHIFT + i) & 1)
            length = add_part(text, length, strategy->recompute_names[i]);
    if (length == 0)
        add_part(text, length, rungs[0].name);
    return text;
}

uint32_t plm__strategy_recompute(const plm_strategy *strategy, int32_t block)
{
    return block < strategy->recompute_count ? strategy->recompute_of[block] : strategy->recompute;
}

/* The end of the run of equal blocks that begins at `first`. */
static int32_t end_of_run(const plm_strategy *strategy, int32_t first)
{
    int32_t next = first;
    while (next < strategy->recompute_count &&
           strategy->recompute_of[next] == strategy->recompute_of[first])
        next++;
    return next;
}

const char *plm_strategy_recompute_format(const plm_strategy *strategy,
                                          char text[PLM_RECOMPUTE_LIST_TEXT])
{
    char rung[PLM_RECOMPUTE_TEXT];
    size_t length = 0;
    if (strategy->recompute_count == 0)
        snprintf(text, PLM_RECOMPUTE_LIST_TEXT, "%s%s",
                 plm__recompute_format(strategy, strategy->recompute, rung),
                 strategy->recompute ? " in every block" : "");
    for (int32_t first = 0, next; first < strategy->recompute_count; first = next) {
        next = end_of_run(strategy, first);
        int wrote = snprintf(text + length, PLM_RECOMPUTE_LIST_TEXT - length, "%s%s in %d block%s",
                             first ? ", then " : "",
                             plm__recompute_format(strategy, strategy->recompute_of[first], rung),
                             (int)(next - first), next - first == 1 ? "" : "s");
        length += (size_t)wrote;
        if (length >= PLM_RECOMPUTE_LIST_TEXT)
            break;
    }
    return text;
}

/* One {"rung": "block", "blocks": 4} of the list. */
static plm_status read_run(const char *what, const json_t *run, plm_strategy *strategy)
{
    const char *rung = json_string_value(json_object_get(run, "rung"));
    json_int_t blocks = json_integer_value(json_object_get(run, "blocks"));
    uint32_t bits;
    PLM_FAIL_IF(
        !rung || json_object_size(run) != 2 || blocks < 1 ||
            blocks > PLM_BLOCKS_MAX - strategy->recompute_count,
        PLM_ERROR_ARGUMENT,
        "%s: wanted recompute as a list of {\"rung\": \"mlp\", \"blocks\": 4} with %d blocks "
        "at most",
        what, PLM_BLOCKS_MAX);
    PLM_TRY(plm_strategy_recompute_parse(strategy, rung, &bits));
    PLM_FAIL_IF(bits & PLM_RECOMPUTE_AUTO, PLM_ERROR_ARGUMENT,
                "%s: wanted a rung for each part of the blocks; \"auto\" stands alone", what);
    for (json_int_t i = 0; i < blocks; i++)
        strategy->recompute_of[strategy->recompute_count++] = bits;
    return PLM_OK;
}

static plm_status read_recompute(const char *what, const json_t *value, plm_strategy *strategy)
{
    if (json_is_string(value))
        return plm_strategy_recompute_parse(strategy, json_string_value(value),
                                            &strategy->recompute);
    PLM_FAIL_IF(!json_is_array(value), PLM_ERROR_ARGUMENT,
                "%s: wanted recompute as a text or as a list for the blocks", what);
    size_t i;
    json_t *run;
    json_array_foreach (value, i, run)
        PLM_TRY(read_run(what, run, strategy));
    return PLM_OK;
}

static const struct {
    const char *name;
    plm_status (*read)(const char *what, const json_t *value, plm_strategy *strategy);
} fields[] = {
    {"micro_batch", read_micro_batch}, {"precision", read_precision},
    {"attention", read_attention},     {"recompute", read_recompute},
    {"head_chunks", read_head_chunks}, {"mlp_chunks", read_mlp_chunks},
    {"gradient", read_gradient},       {"update", read_update},
};

static plm_status read_field(const char *what, const char *name, const json_t *value,
                             plm_strategy *strategy)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(name, fields[i].name) == 0)
            return fields[i].read(what, value, strategy);
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "%s: unknown field '%.60s'; known are micro_batch, precision, attention, "
                    "recompute, head_chunks, mlp_chunks, gradient, update",
                    what, name);
}

plm_status plm_strategy_read(const char *what, const void *text, size_t byte_count,
                             plm_strategy *strategy)
{
    json_t *root;
    PLM_TRY(plm__json_read_small(what, text, byte_count, &root));
    plm_strategy made = plm_strategy_default();
    plm_status status = PLM_OK;
    const char *name;
    json_t *value;
    if (!json_is_object(root))
        status = plm_fail(PLM_ERROR_FORMAT, "%s: wanted one JSON object", what);
    json_object_foreach (root, name, value)
        if (status == PLM_OK)
            status = read_field(what, name, value, &made);
    json_decref(root);
    if (status == PLM_OK)
        *strategy = made;
    return status;
}

plm_status plm_strategy_load(const char *path, plm_strategy *strategy)
{
    plm_file file;
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm_strategy_read(path, file.bytes, file.byte_count, strategy);
    plm__file_unmap(&file);
    return status;
}

/* One text when all blocks are alike, else runs of equal blocks. */
static void write_recompute(plm_json_writer *writer, const plm_strategy *strategy)
{
    char text[PLM_RECOMPUTE_TEXT];
    if (strategy->recompute_count == 0) {
        plm__json_text(writer, "recompute",
                       plm__recompute_format(strategy, strategy->recompute, text));
        return;
    }
    plm__json_begin_array(writer, "recompute");
    for (int32_t first = 0, next; first < strategy->recompute_count; first = next) {
        next = end_of_run(strategy, first);
        plm__json_begin_object(writer, NULL);
        plm__json_text(writer, "rung",
                       plm__recompute_format(strategy, strategy->recompute_of[first], text));
        plm__json_int(writer, "blocks", next - first);
        plm__json_end(writer);
    }
    plm__json_end(writer);
}

void plm__strategy_json(plm_json_writer *writer, const char *key, const plm_strategy *strategy)
{
    plm__json_begin_object(writer, key);
    plm__json_int(writer, "micro_batch", strategy->micro_batch);
    plm__json_text(writer, "precision",
                   strategy->precision == PLM_PRECISION_AUTO ? AUTO_TEXT
                                                             : plm_dtype_text(strategy->precision));
    plm__json_text(writer, "attention", plm_attention_text(strategy->attention));
    write_recompute(writer, strategy);
    plm__json_int(writer, "head_chunks", strategy->head_chunks);
    plm__json_int(writer, "mlp_chunks", strategy->mlp_chunks);
    plm__json_text(writer, "gradient", plm_dtype_text(strategy->gradient));
    plm__json_text(writer, "update", plm_update_time_text(strategy->update));
    plm__json_end(writer);
}

plm_status plm_strategy_json(const plm_strategy *strategy, char **line)
{
    plm_json_writer writer = {0};
    plm__strategy_json(&writer, NULL, strategy);
    return plm__json_finish(&writer, line);
}

plm_status plm_strategy_save(const plm_strategy *strategy, const char *path)
{
    char *line = NULL;
    PLM_TRY(plm_strategy_json(strategy, &line));
    plm_status status = plm__file_write(path, line, strlen(line));
    plm_free(line);
    return status;
}
