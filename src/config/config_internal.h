/* SPDX-License-Identifier: MIT */
/*
 * Reading a config.json: the document, the rows of the families, and the parts that are read one
 * after the other. A reader fills a plm_config that began as its family's defaults.
 */
#ifndef PLM_CONFIG_CONFIG_INTERNAL_H
#define PLM_CONFIG_CONFIG_INTERNAL_H

#include "base/json.h"
#include "plimsoll/config.h"

/* The keys that a family has, by what they are about. */
enum {
    PLM_KEYS_PLAIN = 1 << 0, /* hidden_size, num_hidden_layers, ... */
    PLM_KEYS_GPT2 = 1 << 1,  /* n_embd, n_layer, ... */
    PLM_KEYS_BERT = 1 << 2,
    PLM_KEYS_ROPE = 1 << 3, /* rotary positions, RMS norms, shared keys and values */
    PLM_KEYS_HEAD_WIDTH = 1 << 4,
    PLM_KEYS_ACTIVATION = 1 << 5, /* hidden_act */
    PLM_KEYS_GEMMA = 1 << 6,
    PLM_KEYS_WINDOW = 1 << 7,
    PLM_KEYS_BIAS = 1 << 8,
    PLM_KEYS_MLP_BIAS = 1 << 9,
    PLM_KEYS_EXPERTS = 1 << 10,
    PLM_KEYS_EXPERT_WIDTH = 1 << 11, /* of their own, not intermediate_size */
    PLM_KEYS_SHARED_EXPERTS = 1 << 12,
    PLM_KEYS_SHARED_WIDTH = 1 << 13,
    PLM_KEYS_LATENT = 1 << 14,
    PLM_KEYS_LINEAR = 1 << 15,
    PLM_KEYS_PHI = 1 << 16
};

/* Which layers slide or are linear where the file has no list. */
typedef struct plm_config_layer_rule {
    bool takes_list;              /* `layer_types` */
    bool asks_use;                /* windows hold with `use_sliding_window` alone */
    bool tail;                    /* windows are of the layers from `max_window_layers` on */
    int64_t interval;             /* every so many layers one is full; 0: all alike */
    const char *interval_keys[2]; /* that set the interval, the second goes before the first */
    plm_config_mixing others;     /* what the others are */
    bool experts_behind_first;    /* DeepSeek: `first_k_dense_replace` layers are dense */
} plm_config_layer_rule;

typedef struct plm_config_row {
    unsigned keys;
    const char *text_type;  /* the model_type in its text_config; NULL: it has none */
    plm_config_family text; /* that family */
    plm_config_layer_rule rule;
    plm_config defaults;
} plm_config_row;

extern const plm_config_row plm__config_rows[PLM_CONFIG_FAMILY_COUNT];

/* What is read from. */
typedef struct plm_config_source {
    const char *file;   /* named in messages */
    const json_t *root; /* the document */
    const json_t *text; /* of the language model: the root, or its text_config */
    const char *prefix; /* of its keys in messages: "" or "text_config." */
    const plm_config_row *row;
} plm_config_source;

/* Evaluates to PLM_ERROR_FORMAT: "FILE: wanted WANTED for PREFIX KEY, found what is there". */
#define plm__config_refuse(...) (plm__config_tell(__VA_ARGS__), PLM_ERROR_FORMAT)
void plm__config_tell(const plm_config_source *source, const char *key, const char *wanted,
                      const json_t *found);

/* What a field holds. */
typedef enum plm_config_kind {
    PLM_CONFIG_COUNT_KIND, /* int64_t, whole */
    PLM_CONFIG_REAL_KIND,  /* double */
    PLM_CONFIG_FLAG_KIND   /* bool */
} plm_config_kind;

typedef struct plm_config_field {
    const char *key;
    size_t offset;
    plm_config_kind kind;
    bool null_is_zero; /* null says that there is none; else null is as absent */
    double least, most;
} plm_config_field;

/* Fills a field of *result from the object; an absent key leaves it. PLM_ERROR_FORMAT. */
PLM_MUST_USE plm_status plm__config_field(const plm_config_source *source, const json_t *object,
                                          const plm_config_field *field, void *result);

/* All figures of the family, from source->text. */
PLM_MUST_USE plm_status plm__config_fields(const plm_config_source *source, plm_config *config);

/* Those of the vision tower, where the family has one. */
PLM_MUST_USE plm_status plm__config_tower(const plm_config_source *source, plm_config *config);

/* The rotary positions. Needs the fields. */
PLM_MUST_USE plm_status plm__config_ropes(const plm_config_source *source, plm_config *config);

/* What each layer is. Needs the fields. */
PLM_MUST_USE plm_status plm__config_layers(const plm_config_source *source, plm_config *config);

/* How the checkpoint is quantised. */
PLM_MUST_USE plm_status plm__config_quantization(const plm_config_source *source,
                                                 plm_config *config);

#endif
