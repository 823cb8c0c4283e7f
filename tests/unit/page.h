/* SPDX-License-Identifier: MIT */
/* What a page for a terminal is measured by. */
#ifndef PLM_TEST_PAGE_H
#define PLM_TEST_PAGE_H

#include <stdint.h>

/* In cells; a letter of several bytes is one. */
static inline int64_t widest_line(const char *text)
{
    int64_t widest = 0, cells = 0;
    for (const char *at = text; *at; at++) {
        cells = *at == '\n' ? 0 : cells + ((*at & 0xc0) != 0x80);
        widest = cells > widest ? cells : widest;
    }
    return widest;
}

#endif
