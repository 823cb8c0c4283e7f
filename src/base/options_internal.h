/* SPDX-License-Identifier: MIT */
/* What the renderers of an options table share. */
#ifndef PLM_BASE_OPTIONS_INTERNAL_H
#define PLM_BASE_OPTIONS_INTERNAL_H

#include "base/text.h"
#include "plimsoll/options.h"

/* --help, which every syntax has and no table. */
extern const plm_option plm__option_help;

/* Appends what an option is for: "sequences in one update (default 8, or $PLIMSOLL_BATCH)". */
void plm__option_describe(plm_text *out, const plm_option *option);

/* *text = the text, which is given away; a text that has failed is ended. */
PLM_MUST_USE plm_status plm__option_text_give(plm_text *out, char **text);

#endif
