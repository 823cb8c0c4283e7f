/* SPDX-License-Identifier: MIT */
/* The words of verdicts. */
#include "plimsoll/verdict.h"

static const struct {
    const char *word, *title, *meaning;
} verdicts[PLM_VERDICT_COUNT] = {
#define VERDICT_ROW(name, word, title, meaning) [PLM_VERDICT_##name] = {word, title, meaning},
    PLM_VERDICT_MAP(VERDICT_ROW)
#undef VERDICT_ROW
};

static plm_verdict known(plm_verdict verdict)
{
    return (unsigned)verdict < PLM_VERDICT_COUNT ? verdict : PLM_VERDICT_UNKNOWN;
}

const char *plm_verdict_word(plm_verdict verdict)
{
    return verdicts[known(verdict)].word;
}

const char *plm_verdict_title(plm_verdict verdict)
{
    return verdicts[known(verdict)].title;
}

const char *plm_verdict_meaning(plm_verdict verdict)
{
    return verdicts[known(verdict)].meaning;
}
