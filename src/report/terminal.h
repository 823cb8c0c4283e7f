/* SPDX-License-Identifier: MIT */
/* What pages for a terminal share: headings, paragraphs, tables, sizes. */
#ifndef PLM_REPORT_TERMINAL_H
#define PLM_REPORT_TERMINAL_H

#include "plimsoll/report.h"
#include "report/table.h"

typedef struct plm_page {
    plm_text text; /* holds the status */
    plm_table_style table;
    int64_t columns;
    int64_t rows; /* of its tables */
    const char *const *hints;
} plm_page;

/* An empty page in this style, its defaults filled in. */
plm_page plm__page_begin(plm_report_style style);

/* What a program with these words (NULL: none) calls a hint. */
const char *plm__hint_text(const char *const *hints, plm_hint hint);

/* A line in bold. */
void plm__page_heading(plm_page *page, const char *format, ...) PLM_PRINTF(2, 3);

/* A paragraph, wrapped, behind `indent` blanks. */
void plm__page_say(plm_page *page, int64_t indent, const char *format, ...) PLM_PRINTF(3, 4);

/* The same of words that were gathered, nothing for none; ends them. */
void plm__page_words(plm_page *page, plm_text *words);

void plm__page_gap(plm_page *page);

/* Appends the table and ends it. */
void plm__page_table(plm_page *page, plm_table *table);

/* The same, and a gap. */
void plm__page_section(plm_page *page, plm_table *table);

/* A cell with a size; nothing for `none`. */
void plm__page_size_cell(plm_table *table, size_t bytes);

/* A row of what a size is of, the size and a remark. */
void plm__page_size_row(plm_table *table, const char *what, size_t bytes, const char *remark);

/* A cell with a text cut to `cells`, its end kept, for it tells most of a path. */
void plm__page_cut_cell(plm_table *table, const char *text, int64_t cells);

/* *text = the page, owned by the caller; or its failure. The page is ended. */
PLM_MUST_USE plm_status plm__page_end(plm_page *page, char **text);

#endif
