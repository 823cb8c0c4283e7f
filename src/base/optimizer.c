/* SPDX-License-Identifier: MIT */
/* The optimizers' names. */
#include "plimsoll/optimizer.h"

static const struct {
    const char *text, *title;
} optimizers[PLM_OPTIMIZER_COUNT] = {
#define OPTIMIZER_ROW(name, op, moments, text, title) [PLM_OPTIMIZER_##name] = {text, title},
    PLM_OPTIMIZER_MAP(OPTIMIZER_ROW)
#undef OPTIMIZER_ROW
};

const char *plm_optimizer_text(plm_optimizer optimizer)
{
    return (unsigned)optimizer < PLM_OPTIMIZER_COUNT ? optimizers[optimizer].text : "unknown";
}

const char *plm_optimizer_title(plm_optimizer optimizer)
{
    return (unsigned)optimizer < PLM_OPTIMIZER_COUNT ? optimizers[optimizer].title : "unknown";
}
