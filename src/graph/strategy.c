/* SPDX-License-Identifier: MIT */
/* The strategy as JSON: one table of fields, each with its reader. */
#include "graph/strategy.h"

#include <string.h>

#include "base/file.h"

static const char *const attention_texts[] = {
    [PLM_ATTENTION_FUSED] = "fused",
    [PLM_ATTENTION_PLAIN] = "plain",
};

plm_strategy plm_strategy_default(void)
{
    return (plm_strategy){
        .micro_batch = 0, .precision = PLM_DTYPE_F32, .attention = PLM_ATTENTION_FUSED};
}

const char *plm_attention_text(plm_attention_form form)
{
    return attention_texts[form];
}

static plm_status read_micro_batch(const char *what, const json_t *value, plm_strategy *strategy)
{
    PLM_FAIL_IF(!json_is_integer(value) || json_integer_value(value) < 1, PLM_ERROR_ARGUMENT,
                "%s: wanted micro_batch as a whole number of 1 or more", what);
    strategy->micro_batch = json_integer_value(value);
    return PLM_OK;
}

static plm_status read_precision(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    PLM_FAIL_IF(!text || strcmp(text, "fp32") != 0, PLM_ERROR_ARGUMENT,
                "%s: wanted precision \"fp32\", found '%s'", what, text ? text : "no text");
    strategy->precision = PLM_DTYPE_F32;
    return PLM_OK;
}

static plm_status read_attention(const char *what, const json_t *value, plm_strategy *strategy)
{
    const char *text = json_string_value(value);
    for (int form = 0; text && form <= PLM_ATTENTION_PLAIN; form++) {
        if (strcmp(text, attention_texts[form]) == 0) {
            strategy->attention = (plm_attention_form)form;
            return PLM_OK;
        }
    }
    return plm_fail(PLM_ERROR_ARGUMENT, "%s: wanted attention \"fused\" or \"plain\", found '%s'",
                    what, text ? text : "no text");
}

static const struct {
    const char *name;
    plm_status (*read)(const char *what, const json_t *value, plm_strategy *strategy);
} fields[] = {
    {"micro_batch", read_micro_batch},
    {"precision", read_precision},
    {"attention", read_attention},
};

static plm_status read_field(const char *what, const char *name, const json_t *value,
                             plm_strategy *strategy)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(name, fields[i].name) == 0)
            return fields[i].read(what, value, strategy);
    return plm_fail(PLM_ERROR_ARGUMENT,
                    "%s: unknown field '%.60s'; known are micro_batch, precision, attention", what,
                    name);
}

plm_status plm_strategy_read(const char *what, const void *text, size_t byte_count,
                             plm_strategy *strategy)
{
    json_t *root;
    PLM_TRY(plm_json_read(what, text, byte_count, &root));
    plm_strategy made = plm_strategy_default();
    plm_status status = PLM_OK;
    const char *name;
    json_t *value;
    if (!json_is_object(root))
        status = plm_fail(PLM_ERROR_FORMAT, "%s: wanted one JSON object", what);
    json_object_foreach(root, name, value) if (status == PLM_OK) status =
        read_field(what, name, value, &made);
    json_decref(root);
    if (status == PLM_OK)
        *strategy = made;
    return status;
}

plm_status plm_strategy_load(const char *path, plm_strategy *strategy)
{
    plm_file file;
    PLM_TRY(plm_file_map(path, &file));
    plm_status status = plm_strategy_read(path, file.bytes, file.byte_count, strategy);
    plm_file_unmap(&file);
    return status;
}

void plm__strategy_json(plm_json_writer *writer, const char *key, const plm_strategy *strategy)
{
    plm_json_begin_object(writer, key);
    plm_json_int(writer, "micro_batch", strategy->micro_batch);
    plm_json_text(writer, "precision", plm_dtype_text(strategy->precision));
    plm_json_text(writer, "attention", plm_attention_text(strategy->attention));
    plm_json_end(writer);
}
