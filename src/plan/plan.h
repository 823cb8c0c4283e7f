/* SPDX-License-Identifier: MIT */
/*
 * The plan as the executor and the views see it.
 *
 * Lifetimes are counted in positions of a program's operations, 0 being its first: a storage is
 * live from `birth` to `death`, both included. Where an operation writes over a dying input, the
 * output's storage takes the input's place: `takes[output storage]` names it, and both end at one
 * `home` storage, the only one that is placed.
 */
#ifndef PLM_PLAN_PLAN_H
#define PLM_PLAN_PLAN_H

#include "device/device.h"
#include "graph/graph.h"
#include "plimsoll/plan.h"

/* One storage's place in time and in the arena. */
typedef struct plm_place {
    int32_t birth;
    int32_t death;
    int32_t takes; /* storage whose bytes this one takes over, -1 when it has its own */
    int32_t home;  /* storage that is placed for it: itself unless it takes another's; -1: unused */
    int32_t until; /* of a home: death of the last that took its bytes */
    size_t offset; /* in the arena */
} plm_place;

/* An operation's workspace. */
typedef struct plm_workspace {
    size_t bytes; /* asked; 0 when there is none */
    size_t offset;
} plm_workspace;

/* The inputs that the executor fills, [sequences, T] int32 each, and with what a step begins. */
enum {
    PLM_INPUT_TOKENS,
    PLM_INPUT_TARGETS,
    PLM_INPUT_TYPES,
    PLM_INPUT_COUNT,
    PLM_SLOT_RECORD = PLM_INPUT_COUNT, /* the host's part of the step record */
    PLM_SLOT_PARTS
};

extern const char *const plm__plan_inputs[PLM_INPUT_COUNT]; /* "tokens", ... */

/* Where a device with a copy queue puts what the next micro-batch needs: see slot.c. */
typedef struct plm_slot {
    plm_tensor parts[PLM_SLOT_PARTS]; /* PLM_TENSOR_NONE: there is none */
    size_t bytes;                     /* whole granules; 0: the plan has no slot */
} plm_slot;

struct plm_plan {
    plm_graph *graph;
    plm_place *places;         /* by storage */
    plm_workspace *workspaces; /* by operation */
    plm_slot slot;
    plm_plan_summary summary;
};

/* Whether storage `index` is a call storage of this program. */
static inline bool plm__plan_is_call(const plm_graph *graph, int64_t index, plm_program program)
{
    const plm_storage *storage = &graph->storages.items[index];
    return storage->scope == PLM_SCOPE_CALL && storage->program == program;
}

/* Which of plm__plan_inputs a tensor is by its name, PLM_INPUT_COUNT: none. */
int plm__plan_input(const plm_graph *graph, const plm_tensor_info *tensor);

/* Gives a plan whose programs are built the slot for the inputs of FIRST. */
PLM_MUST_USE plm_status plm__plan_add_slot(plm_plan *plan);

/* Fills *launch with an operation's kind, attributes, shapes and strides; every data pointer NULL.
 */
void plm__plan_launch(const plm_graph *graph, const plm_op *op, plm_launch *launch);

/*
 * Fills births and deaths of the program's call storages, and chooses which outputs take the place
 * of a dying input: the first allowed input that dies there, fills its storage and is as large.
 */
void plm__plan_lifetimes(const plm_graph *graph, plm_program program, plm_place *places);

/*
 * Places run and window storages one after the other from the bottom; each is a whole number of
 * granules. *end = their end.
 */
PLM_MUST_USE plm_status plm__plan_place_persistent(const plm_graph *graph, plm_place *places,
                                                   size_t *end);

/*
 * Packs the program's homes and workspaces above `base`. *bytes = what the packing takes, *bound =
 * the largest live sum.
 */
PLM_MUST_USE plm_status plm__plan_place_program(const plm_graph *graph, plm_program program,
                                                size_t base, plm_place *places,
                                                plm_workspace *workspaces, size_t *bytes,
                                                size_t *bound);

/*
 * *plan = everything of a plan but the packing: graph, lifetimes, workspaces and the persistent
 * region; figures that come of the packing are 0. As plm_plan_create. Of networks that ask
 * plm_blocks, the first `blocks_most` blocks only; 0: all.
 */
PLM_MUST_USE plm_status plm__plan_sketch(const plm_job *job, const plm_strategy *strategy,
                                         plm_device *device, int32_t blocks_most, plm_plan **plan);

/*
 * Whether a job's batch and sequence can be counted and the batch is a whole number of
 * micro-batches, 0 being left open. PLM_ERROR_ARGUMENT.
 */
PLM_MUST_USE plm_status plm__plan_check_extents(const plm_job *job, int64_t micro_batch);

/* Whether a tensor is kept for the backward: made before its program's cross entropy, read after.
 */
bool plm__plan_is_kept(const plm_plan *plan, plm_tensor tensor);

#endif
