/* SPDX-License-Identifier: MIT */
/*
 * What the renderings of a bill share: live blocks of the peak gathered into rows, and the words
 * for roles and places. Words come from the owners' names; no network's are known here.
 *
 * A layer "block.3" is the third of the family "block". Blocks are alike when everything but the
 * number is: role, size, shape, name, operation and those that they are kept for.
 */
#ifndef PLM_PLAN_REPORT_BILL_INTERNAL_H
#define PLM_PLAN_REPORT_BILL_INTERNAL_H

#include "base/text.h"
#include "plimsoll/checklist.h"
#include "plimsoll/plan_report.h"

/* Alike live blocks. */
typedef struct plm__bill_row {
    const plm_owner *owner; /* of the first of them; NULL: of a block without one */
    size_t each_bytes;      /* asked */
    size_t total_bytes;     /* asked */
    int64_t count;
    int64_t layer_count; /* different layers among them */
} plm__bill_row;

typedef struct plm__bill_rows {
    PLM_ARRAY(plm__bill_row) list; /* largest total first */
} plm__bill_rows;

/* Gathers the blocks that live at the peak. PLM_ERROR_HOST_MEMORY leaves nothing. */
PLM_MUST_USE plm_status plm__bill_rows_make(const plm_bill *bill, plm__bill_rows *rows);
void plm__bill_rows_free(plm__bill_rows *rows);

/* The owner of alloc event `event`, NULL when it has none. */
const plm_owner *plm__bill_owner(const plm_bill *bill, int64_t event);

/* "parameters", "optimizer state", ...; static. */
const char *plm__bill_role_words(plm_role role);

/* Whether blocks of the role are there all the time, whatever the micro-batch; not when the role is
 * not known. */
bool plm__bill_role_persists(plm_role role);

/* How many bytes of `layer` come before its number: all of them when it has none. */
int64_t plm__bill_family_bytes(const char *layer);

/* "block 3", "12 blocks", "head". */
void plm__bill_add_layer(const plm_bill *bill, const plm__bill_row *row, plm_text *out);

/* The tensor's name without its layer. Borrowed from the trace. */
const char *plm__bill_name(const plm_bill *bill, const plm_owner *owner);

/* An operation with its layer ("block.3 gelu gradient") as it is called within the family of
 * `owner` ("gelu gradient") or outside it ("head ln layer norm"). */
void plm__bill_add_place(const plm_bill *bill, const plm_owner *owner, uint32_t place,
                         plm_text *out);

/* "[8,1024,768] fp32"; nothing when the shape is not known. */
void plm__bill_add_shape(const plm_owner *owner, plm_text *out);

/* Where the peak is, what holds it, in sentences. */
void plm__bill_add_story(const plm_bill *bill, const plm__bill_rows *rows, plm_text *out);

/* The four questions, answered for a plan; its treatments say what would be gained. */
void plm__bill_checklist(const plm_bill *bill, const plm__bill_rows *rows, plm_checklist *list);

/* Which role holds most, what that means, and what most of it is: one line of prose. */
void plm__bill_add_verdict(const plm_bill *bill, const plm__bill_rows *rows, plm_text *out);

#endif
