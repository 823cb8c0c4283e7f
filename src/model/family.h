/* SPDX-License-Identifier: MIT */
/*
 * Families of models: one row a family, which its own file fills (gpt.c, bert.c). Nothing outside a
 * family knows its keys, its names or its inputs; docs/add-a-model.md tells how one is added.
 */
#ifndef PLM_MODEL_FAMILY_H
#define PLM_MODEL_FAMILY_H

#include "plimsoll/model.h"

/* ROW(name): plm__family_NAME is the row. */
#define PLM_FAMILIES(ROW)                                                                          \
    ROW(gpt)                                                                                       \
    ROW(bert)

/* A key of a description, "width=384", and the figure of plm_model that it sets. */
typedef struct plm_model_key {
    const char *name;
    size_t offset;   /* of an int64_t that must be given, or of a float that need not be */
    int64_t largest; /* of the whole number; 0: the figure is a float, at least 0 and under 1 */
} plm_model_key;

struct plm_family {
    const char *name;          /* begins its descriptions: "gpt:..." */
    const plm_model_key *keys; /* ended by one without a name, as presets are */
    const plm_model *presets;
    const char *example; /* a description */
    /* Models that calibration trains: descriptions. Between them the families have every operation
     * that a model can have. */
    struct {
        const char *gpu; /* with the widths of a model that people train there */
        const char *cpu;
        const char *quick; /* for a CPU in a second or less */
    } trials;
    /* plm_network.build with a plm_model as config: makes the inputs, the operations, the end. */
    void (*build)(plm_graph *graph, const void *config, plm_program program, int64_t batch,
                  int64_t sequence);
    /* Whether figures that were read go together. PLM_ERROR_ARGUMENT. */
    plm_status (*check)(const plm_model *model);
    bool is_masked; /* learns hidden tokens; in GENERATE it tells the token at a hidden position */
};

#define PLM_FAMILY_ROW(name) extern const plm_family plm__family_##name;
PLM_FAMILIES(PLM_FAMILY_ROW)
#undef PLM_FAMILY_ROW

/* The families, ended by NULL. */
extern const plm_family *const plm__families[];

/* The family whose name begins `text` and ends there or at a colon, NULL for none. */
const plm_family *plm__family_find(const char *text);

/* Writes what a model is, "gpt layers=2 ... dropout=0.1", with every key of its family. */
void plm__model_tell(const plm_model *model, char *text, size_t room);

#endif
