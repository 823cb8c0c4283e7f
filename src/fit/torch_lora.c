/* SPDX-License-Identifier: MIT */
/* Which modules LoRA adapts, as peft chooses them by name. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "fit/torch_internal.h"

/* peft's own choice, where it has one. */
static const char *const defaults[PLM_CONFIG_FAMILY_COUNT] = {
    [PLM_CONFIG_GPT2] = "c_attn",           [PLM_CONFIG_BERT] = "query,value",
    [PLM_CONFIG_LLAMA] = "q_proj,v_proj",   [PLM_CONFIG_MISTRAL] = "q_proj,v_proj",
    [PLM_CONFIG_QWEN2] = "q_proj,v_proj",   [PLM_CONFIG_QWEN3] = "q_proj,v_proj",
    [PLM_CONFIG_GEMMA2] = "q_proj,v_proj",  [PLM_CONFIG_GEMMA3_TEXT] = "q_proj,v_proj",
    [PLM_CONFIG_MIXTRAL] = "q_proj,v_proj",
};

plm_status plm__torch_targets(const plm_config *config, const plm_torch_job *job,
                              char targets[PLM_TORCH_LIST_TEXT])
{
    const char *chosen = job->lora;
    if (strcmp(chosen, "default") == 0) {
        chosen = defaults[config->family];
        PLM_FAIL_IF(!chosen, PLM_ERROR_ARGUMENT,
                    "%s: wanted the modules that LoRA adapts, found default, and peft has none for "
                    "%s; name them, or say all-linear",
                    config->name, plm_config_family_text(config->family));
    }
    snprintf(targets, PLM_TORCH_LIST_TEXT, "%s", chosen);
    return PLM_OK;
}

/* Calls `fits` with each word of a list until one does. */
static bool any(const char *list, bool (*fits)(const char *word, size_t count, const char *name),
                const char *name)
{
    while (*list) {
        size_t count = strcspn(list, ",");
        if (count > 0 && fits(list, count, name))
            return true;
        list += count + (list[count] == ',');
    }
    return false;
}

static bool is_word(const char *word, size_t count, const char *name)
{
    return strlen(name) == count && memcmp(word, name, count) == 0;
}

/* "q_proj" is the module "model.layers.0.self_attn.q_proj" of that tensor. */
static bool ends_module(const char *word, size_t count, const char *name)
{
    static const char weight[] = ".weight";
    size_t length = strlen(name), tail = sizeof weight - 1;
    if (length < tail + count || strcmp(name + length - tail, weight) != 0)
        return false;
    const char *at = name + length - tail - count;
    return memcmp(at, word, count) == 0 && (at == name || at[-1] == '.');
}

static bool is_within(const char *word, size_t count, const char *name)
{
    for (const char *at = name; strlen(at) >= count; at++)
        if (memcmp(at, word, count) == 0)
            return true;
    return false;
}

bool plm__torch_list_has(const char *list, const char *word)
{
    return any(list, is_word, word);
}

plm_torch_adapter plm__torch_adapter_of(const plm_torch_job *job, const char *targets,
                                        const plm_weight *weight)
{
    plm_torch_adapter adapter = {0};
    bool is_matrix = weight->form == PLM_WEIGHT_MATRIX || weight->form == PLM_WEIGHT_MATRIX_T;
    bool is_table = weight->form == PLM_WEIGHT_TABLE;
    if (!targets[0] || (!is_matrix && !is_table))
        return adapter;
    adapter.is_saved = any(job->lora_saves, ends_module, weight->name);
    bool is_head = weight->part == PLM_WEIGHT_LM_HEAD;
    bool is_meant = strcmp(targets, "all-linear") == 0 ? is_matrix && !is_head
                                                       : any(targets, ends_module, weight->name);
    adapter.is_adapted = is_meant && !any(job->lora_exclude, is_within, weight->name);
    bool is_turned = weight->form == PLM_WEIGHT_MATRIX_T || is_table; /* [in, out] */
    adapter.in = weight->shape[is_turned ? 0 : 1];
    adapter.out = weight->shape[is_turned ? 1 : 0];
    return adapter;
}
