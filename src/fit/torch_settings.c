/* SPDX-License-Identifier: MIT */
/*
 * Settings files: one table of keys by their path, each with what it changes of a job. Keys of all
 * kinds of files stand in it side by side, for their names differ; TrainingArguments may hold
 * DeepSpeed's, and an accelerate config is YAML, of which two levels of keys and words are read.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "fit/torch_internal.h"
#include "fit/yaml.h"

typedef struct source {
    const char *file;
    const plm_config *config;
    const json_t *root;
} source;

typedef plm_status reader(const source *s, const char *path, const json_t *value,
                          plm_torch_job *job);

static plm_status refuse(const source *s, const char *path, const char *wanted, const json_t *found)
{
    char text[PLM_JSON_DESCRIPTION_TEXT];
    plm__json_describe(found, text);
    return plm_fail(PLM_ERROR_FORMAT, "%s: wanted %s for %s, found %s", s->file, wanted, path,
                    text);
}

/* ---- values --------------------------------------------------------------------------------- */

static plm_status read_count(const source *s, const char *path, const json_t *value, int64_t least,
                             int64_t *count)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number != floor(number) || number < (double)least ||
        number > (double)((int64_t)1 << 40))
        return refuse(s, path, "a whole number", value);
    *count = (int64_t)number;
    return PLM_OK;
}

static plm_status read_flag(const source *s, const char *path, const json_t *value, bool *flag)
{
    if (!json_is_boolean(value))
        return refuse(s, path, "true or false", value);
    *flag = json_is_true(value);
    return PLM_OK;
}

#define COUNT_READER(name, field, least)                                                           \
    static plm_status name(const source *s, const char *path, const json_t *value,                 \
                           plm_torch_job *job)                                                     \
    {                                                                                              \
        return read_count(s, path, value, least, &job->field);                                     \
    }
#define FLAG_READER(name, field)                                                                   \
    static plm_status name(const source *s, const char *path, const json_t *value,                 \
                           plm_torch_job *job)                                                     \
    {                                                                                              \
        return read_flag(s, path, value, &job->field);                                             \
    }

COUNT_READER(read_batch, batch, 1)
COUNT_READER(read_sequence, sequence, 1)
COUNT_READER(read_ranks, ranks, 1)
COUNT_READER(read_rank, rank, 1)
COUNT_READER(read_live, live, 0)
COUNT_READER(read_sub_group, sub_group, 1)
FLAG_READER(read_autocast, autocasts)
FLAG_READER(read_checkpointing, recomputes)
FLAG_READER(read_liger, fuses_loss)
FLAG_READER(read_overlap, overlaps)
FLAG_READER(read_four_bits, quantizes)
FLAG_READER(read_double_quant, double_quantizes)

static bool is_auto(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

/* Bucket sizes, of which "auto" is what transformers makes of the width. */
static plm_status read_reduce_bucket(const source *s, const char *path, const json_t *value,
                                     plm_torch_job *job)
{
    if (!is_auto(value))
        return read_count(s, path, value, 1, &job->reduce_bucket);
    job->reduce_bucket = s->config->width * s->config->width;
    return PLM_OK;
}

static plm_status read_persistence(const source *s, const char *path, const json_t *value,
                                   plm_torch_job *job)
{
    if (!is_auto(value))
        return read_count(s, path, value, 0, &job->persistence);
    job->persistence = 10 * s->config->width;
    return PLM_OK;
}

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct word {
    const char *text;
    int value;
} word;

/* The value of a word of a list that a NULL ends. */
static plm_status read_word(const source *s, const char *path, const json_t *value,
                            const word *words, const char *wanted, int *found)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    for (const word *w = words; w->text; w++) {
        if (strcmp(text, w->text) == 0) {
            *found = w->value;
            return PLM_OK;
        }
    }
    return refuse(s, path, wanted, value);
}

static plm_status read_optim(const source *s, const char *path, const json_t *value,
                             plm_torch_job *job)
{
    static const word words[] = {
        {"adamw_torch", PLM_TORCH_ADAMW},        {"adamw_torch_fused", PLM_TORCH_ADAMW},
        {"adamw_hf", PLM_TORCH_ADAMW},           {"adamw_8bit", PLM_TORCH_ADAMW8BIT},
        {"adamw_bnb_8bit", PLM_TORCH_ADAMW8BIT}, {"paged_adamw_8bit", PLM_TORCH_ADAMW8BIT},
        {"paged_adamw_32bit", PLM_TORCH_ADAMW},  {"sgd", PLM_TORCH_SGD},
        {"adafactor", PLM_TORCH_ADAFACTOR},      {NULL, 0}};
    int optim = 0;
    PLM_TRY(read_word(s, path, value, words,
                      "adamw_torch, adamw_torch_fused, adamw_8bit, paged_adamw_8bit, sgd or "
                      "adafactor",
                      &optim));
    job->optim = (plm_torch_optim)optim;
    job->tables_keep_moments = optim == PLM_TORCH_ADAMW8BIT;
    return PLM_OK;
}

static plm_status read_stage(const source *s, const char *path, const json_t *value,
                             plm_torch_job *job)
{
    static const plm_torch_shard stages[] = {PLM_TORCH_DDP, PLM_TORCH_ZERO1, PLM_TORCH_ZERO2,
                                             PLM_TORCH_ZERO3};
    int64_t stage = -1;
    PLM_TRY(read_count(s, path, value, 0, &stage));
    if (stage > 3)
        return refuse(s, path, "a stage from 0 to 3", value);
    job->shard = stages[stage];
    job->overlaps = stage == 3; /* what null is; a key says otherwise */
    return PLM_OK;
}

static plm_status read_precision(const source *s, const char *path, const json_t *value,
                                 plm_torch_job *job)
{
    static const word words[] = {{"no", 0}, {"bf16", 1}, {"fp16", 1}, {"fp8", 1}, {NULL, 0}};
    int casts = 0;
    PLM_TRY(read_word(s, path, value, words, "no, fp16 or bf16", &casts));
    job->autocasts = casts != 0;
    return PLM_OK;
}

static plm_status read_distributed(const source *s, const char *path, const json_t *value,
                                   plm_torch_job *job)
{
    static const word words[] = {{"NO", PLM_TORCH_UNSHARDED},
                                 {"MULTI_GPU", PLM_TORCH_DDP},
                                 {"FSDP", PLM_TORCH_FSDP1},
                                 {"DEEPSPEED", PLM_TORCH_ZERO2},
                                 {NULL, 0}};
    int shard = 0;
    PLM_TRY(read_word(s, path, value, words, "NO, MULTI_GPU, FSDP or DEEPSPEED", &shard));
    job->shard = (plm_torch_shard)shard;
    return PLM_OK;
}

/* TrainingArguments' fsdp: "full_shard auto_wrap", or a list of such words, or true. */
static plm_status read_fsdp(const source *s, const char *path, const json_t *value,
                            plm_torch_job *job)
{
    bool is_told =
        json_is_true(value) || json_array_size(value) > 0 || json_string_length(value) > 0;
    if (!json_is_string(value) && !json_is_array(value) && !json_is_boolean(value))
        return refuse(s, path, "a text or a list", value);
    if (is_told)
        job->shard = PLM_TORCH_FSDP1;
    return PLM_OK;
}

static plm_status read_fsdp_version(const source *s, const char *path, const json_t *value,
                                    plm_torch_job *job)
{
    int64_t version = 0;
    PLM_TRY(read_count(s, path, value, 1, &version));
    if (job->shard == PLM_TORCH_FSDP1 || job->shard == PLM_TORCH_FSDP2)
        job->shard = version >= 2 ? PLM_TORCH_FSDP2 : PLM_TORCH_FSDP1;
    return PLM_OK;
}

/* True, or FSDP1's words. */
static plm_status read_reshard(const source *s, const char *path, const json_t *value,
                               plm_torch_job *job)
{
    static const word words[] = {
        {"FULL_SHARD", 0}, {"SHARD_GRAD_OP", 1}, {"HYBRID_SHARD", 0}, {NULL, 0}};
    int keeps = json_is_false(value);
    if (!json_is_boolean(value))
        PLM_TRY(
            read_word(s, path, value, words, "true, false, FULL_SHARD or SHARD_GRAD_OP", &keeps));
    job->keeps_gathered = keeps != 0;
    return PLM_OK;
}

static plm_status read_device(const source *s, const char *path, const json_t *value, bool *off)
{
    static const word words[] = {{"none", 0}, {"cpu", 1}, {"nvme", 1}, {NULL, 0}};
    int is_off = 0;
    PLM_TRY(read_word(s, path, value, words, "none, cpu or nvme", &is_off));
    *off = is_off != 0;
    return PLM_OK;
}

static plm_status read_offload(const source *s, const char *path, const json_t *value,
                               plm_torch_job *job)
{
    return read_device(s, path, value, &job->offloads_optimizer);
}

static plm_status read_offload_parameters(const source *s, const char *path, const json_t *value,
                                          plm_torch_job *job)
{
    return read_device(s, path, value, &job->offloads_parameters);
}

static plm_status read_accumulation(const source *s, const char *path, const json_t *value,
                                    plm_torch_job *job)
{
    static const word words[] = {{"fp32", 1}, {"bf16", 0}, {"fp16", 0}, {NULL, 0}};
    int is_single = 0;
    PLM_TRY(read_word(s, path, value, words, "fp32, bf16 or fp16", &is_single));
    job->gradients_in_fp32 = is_single != 0;
    return PLM_OK;
}

/* ---- LoRA ----------------------------------------------------------------------------------- */

/* A word, or a list of words, parted by commas. */
static plm_status read_names(const source *s, const char *path, const json_t *value,
                             char list[PLM_TORCH_LIST_TEXT])
{
    size_t length = 0, count = json_is_array(value) ? json_array_size(value) : 1;
    list[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_string(item) || length + json_string_length(item) + 2 > PLM_TORCH_LIST_TEXT)
            return refuse(s, path, "names of at most 256 bytes", item);
        length += (size_t)snprintf(list + length, PLM_TORCH_LIST_TEXT - length, "%s%s",
                                   i ? "," : "", json_string_value(item));
    }
    return PLM_OK;
}

static plm_status read_targets(const source *s, const char *path, const json_t *value,
                               plm_torch_job *job)
{
    return read_names(s, path, value, job->lora);
}

static plm_status read_saves(const source *s, const char *path, const json_t *value,
                             plm_torch_job *job)
{
    return read_names(s, path, value, job->lora_saves);
}

static plm_status read_excluded(const source *s, const char *path, const json_t *value,
                                plm_torch_job *job)
{
    return read_names(s, path, value, job->lora_exclude);
}

static plm_status read_lora_dropout(const source *s, const char *path, const json_t *value,
                                    plm_torch_job *job)
{
    double share = json_number_value(value);
    if (!json_is_number(value) || !(share >= 0 && share < 1))
        return refuse(s, path, "a number of at least 0 and under 1", value);
    job->lora_dropout = share;
    return PLM_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* In the order in which they are read: what decides a kind comes before its version. */
static const struct {
    const char *path; /* keys, parted by points */
    reader *read;
} keys[] = {
    {"per_device_train_batch_size", read_batch},
    {"train_micro_batch_size_per_gpu", read_batch},
    {"max_length", read_sequence},
    {"max_seq_length", read_sequence},
    {"gradient_checkpointing", read_checkpointing},
    {"bf16", read_autocast},
    {"fp16", read_autocast},
    {"bf16.enabled", read_autocast},
    {"fp16.enabled", read_autocast},
    {"mixed_precision", read_precision},
    {"optim", read_optim},
    {"use_liger_kernel", read_liger},
    {"num_processes", read_ranks},
    {"world_size", read_ranks},
    {"distributed_type", read_distributed},
    {"fsdp", read_fsdp},
    {"fsdp_config.fsdp_version", read_fsdp_version},
    {"fsdp_config.version", read_fsdp_version},
    {"fsdp_config.fsdp_reshard_after_forward", read_reshard},
    {"fsdp_config.reshard_after_forward", read_reshard},
    {"fsdp_config.fsdp_sharding_strategy", read_reshard},
    {"fsdp_config.fsdp_activation_checkpointing", read_checkpointing},
    {"fsdp_config.activation_checkpointing", read_checkpointing},
    {"zero_optimization.stage", read_stage},
    {"deepspeed_config.zero_stage", read_stage},
    {"zero_optimization.reduce_bucket_size", read_reduce_bucket},
    {"zero_optimization.overlap_comm", read_overlap},
    {"zero_optimization.stage3_param_persistence_threshold", read_persistence},
    {"zero_optimization.stage3_max_live_parameters", read_live},
    {"zero_optimization.sub_group_size", read_sub_group},
    {"zero_optimization.offload_optimizer.device", read_offload},
    {"zero_optimization.offload_param.device", read_offload_parameters},
    {"deepspeed_config.offload_optimizer_device", read_offload},
    {"deepspeed_config.offload_param_device", read_offload_parameters},
    {"data_types.grad_accum_dtype", read_accumulation},
    {"target_modules", read_targets},
    {"modules_to_save", read_saves},
    {"exclude_modules", read_excluded},
    {"r", read_rank},
    {"lora_dropout", read_lora_dropout},
    {"load_in_4bit", read_four_bits},
    {"bnb_4bit_use_double_quant", read_double_quant},
};

/* The value at a path, NULL for none. */
static const json_t *find(const json_t *root, const char *path)
{
    char key[64];
    const json_t *at = root;
    while (at && *path) {
        size_t count = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)count, path);
        at = json_object_get(at, key);
        path += count + (path[count] == '.');
    }
    return at;
}

static plm_status read_keys(const source *s, const json_t *root, plm_torch_job *job)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = find(root, keys[i].path);
        bool is_left = !value || json_is_null(value) ||
                       (json_is_object(value) && !strchr(keys[i].path, '.')) ||
                       (is_auto(value) && strncmp(keys[i].path, "zero_", 5) != 0);
        if (!is_left)
            PLM_TRY(keys[i].read(s, keys[i].path, value, job));
    }
    return PLM_OK;
}

static plm_status read_root(const source *s, plm_torch_job *job)
{
    const json_t *inner = json_object_get(s->root, "deepspeed");
    PLM_FAIL_IF(!json_is_object(s->root), PLM_ERROR_FORMAT,
                "%s: wanted an object of settings, found another value", s->file);
    PLM_FAIL_IF(
        json_is_string(inner) && json_string_length(inner) > 0, PLM_ERROR_FORMAT,
        "%s: wanted DeepSpeed's settings for deepspeed, found the name of a file; give that "
        "file",
        s->file);
    PLM_TRY(read_keys(s, s->root, job));
    return json_is_object(inner) ? read_keys(s, inner, job) : PLM_OK;
}

static bool is_yaml(const char *name)
{
    size_t count = strlen(name);
    return (count > 5 && strcmp(name + count - 5, ".yaml") == 0) ||
           (count > 4 && strcmp(name + count - 4, ".yml") == 0);
}

plm_status plm_torch_settings_read(const char *name, const void *bytes, size_t byte_count,
                                   const plm_config *config, plm_torch_job *job)
{
    json_t *root = NULL;
    plm_torch_job made = *job;
    PLM_TRY(is_yaml(name) ? plm__yaml_read(name, bytes, byte_count, &root)
                          : plm__json_read_small(name, bytes, byte_count, &root));
    source s = {.file = name, .config = config, .root = root};
    plm_status status = read_root(&s, &made);
    json_decref(root);
    if (status == PLM_OK)
        *job = made;
    return status;
}

plm_status plm_torch_settings_load(const char *path, const plm_config *config, plm_torch_job *job)
{
    plm_file file = {0};
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm_torch_settings_read(path, file.bytes, file.byte_count, config, job);
    plm__file_unmap(&file);
    return status;
}
