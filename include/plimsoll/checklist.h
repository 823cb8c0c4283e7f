/* SPDX-License-Identifier: MIT */
/*
 * The checklist: four questions that are asked of every training run, answered from a trace.
 *
 *   state        is state held without need in fp32, or twice
 *   activations  are activations kept that need not be
 *   lifetimes    could lifetimes be shorter
 *   allocator    does the allocator suit the access pattern
 *
 * Each is answered by yes, no or "cannot be told", with the figures that decide, one thing to do
 * with what it gains, and what the answer rests on. A recording of PyTorch holds sizes, times and
 * call stacks, but neither element types nor last uses: what follows from those three alone is
 * said, and said to be an inference; what does not is not guessed.
 *
 * Bytes of figures are what tensors asked for, at the peak unless they say otherwise.
 *
 *     plm_checklist *list = NULL;
 *     PLM_TRY(plm_checklist_create(findings, &list));
 *     ... list->items[PLM_QUESTION_STATE].reason ...
 *     plm_checklist_destroy(list);
 *
 * Thread-safe: findings are only read, and a list that was made does not change.
 */
#ifndef PLIMSOLL_CHECKLIST_H
#define PLIMSOLL_CHECKLIST_H

#include "plimsoll/findings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row a question: name, key, what it asks, whether yes is the good answer. */
#define PLM_QUESTION_MAP(ROW)                                                                      \
    ROW(STATE, "fp32_state", "Is fp32 state held without need?", false)                            \
    ROW(ACTIVATIONS, "activations", "Are activations kept that need not be?", false)               \
    ROW(LIFETIMES, "lifetimes", "Could lifetimes be shorter?", false)                              \
    ROW(ALLOCATOR, "allocator", "Does the allocator suit the access pattern?", true)

typedef enum plm_question {
#define PLM_QUESTION_ROW(name, key, question, good) PLM_QUESTION_##name,
    PLM_QUESTION_MAP(PLM_QUESTION_ROW)
#undef PLM_QUESTION_ROW
        PLM_QUESTION_COUNT
} plm_question;

/* "fp32_state", ... and the question; static. */
const char *plm_question_key(plm_question kind);
const char *plm_question_text(plm_question kind);

typedef enum plm_answer {
    PLM_ANSWER_UNKNOWN, /* "cannot be told" */
    PLM_ANSWER_NO,
    PLM_ANSWER_YES
} plm_answer;

enum {
    PLM_CHECKLIST_TEXT = 384,
    PLM_CHECKLIST_WHAT = 48,
    PLM_CHECKLIST_FIGURES_MAX = 6 /* figures of one question */
};

/* One group of blocks that the answer counts on. */
typedef struct plm_checklist_figure {
    char what[PLM_CHECKLIST_WHAT]; /* "optimizer state", "softmax" */
    char site[PLM_CALL_SITE_TEXT]; /* the line, the layers; "" when there is none */
    int64_t blocks;
    size_t bytes;
} plm_checklist_figure;

typedef struct plm_checklist_item {
    plm_answer answer;
    size_t gain_bytes;               /* of the action, at the peak; 0: none, or not known */
    char reason[PLM_CHECKLIST_TEXT]; /* what decides */
    char action[PLM_CHECKLIST_TEXT]; /* one thing to do; "" when there is none */
    char basis[PLM_CHECKLIST_TEXT];  /* what the answer rests on, and what it cannot see */
    plm_checklist_figure figures[PLM_CHECKLIST_FIGURES_MAX];
    int figure_count;
} plm_checklist_item;

typedef struct plm_checklist {
    plm_checklist_item items[PLM_QUESTION_COUNT];
} plm_checklist;

/*
 * *list = the answers for one device of a recording, owned by the caller. Linear in its events;
 * when a tenth of the reserved peak or more goes unused, three replays besides.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_checklist_create(const plm_findings *findings, plm_checklist **list);

/* NULL is allowed. */
void plm_checklist_destroy(plm_checklist *list);

#ifdef __cplusplus
}
#endif
#endif
