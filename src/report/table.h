/* SPDX-License-Identifier: MIT */
/*
 * Aligned text tables for a terminal. A table is filled cell by cell and knows nothing of what it
 * shows.
 *
 *     static const plm_table_column columns[] = {
 *         {.title = "role"},
 *         {.title = "bytes", .right = true},
 *         {.title = "share", .right = true},
 *         {.bar_cells = 20},
 *     };
 *     plm_table table;
 *     plm__table_init(&table, columns, 4);
 *     plm__table_row(&table, PLM_TABLE_PLAIN);
 *     plm__table_cell(&table, "%s", "parameters");
 *     plm__table_cell(&table, "%s", "474.7 MiB");
 *     plm__table_cell(&table, "%.1f %%", 25.0);
 *     plm__table_bar(&table, 0.25);
 *     plm__table_rule(&table);
 *     ...
 *     plm__table_render(&table, (plm_table_style){.colour = true}, &text);
 *     plm__table_fini(&table);
 *
 * Widths are counted as a terminal counts them: a letter with its accents is one cell, a wide
 * letter two. Bytes that are not UTF-8 and control characters become '?', so that a name from a
 * file cannot reach the terminal as a command. Like plm_text, the first failure sticks and later
 * calls do nothing; plm__table_render says it. Not thread-safe.
 */
#ifndef PLM_REPORT_TABLE_H
#define PLM_REPORT_TABLE_H

#include "base/text.h"

enum {
    PLM_TABLE_COLUMNS_MAX = 12,
    PLM_TABLE_BAR_CELLS_MAX = 60,
    PLM_TABLE_GAP_CELLS = 2 /* between columns */
};

typedef struct plm_table_column {
    const char *title; /* NULL: none; without any title there is no header */
    bool right;        /* aligned to the right, as numbers are */
    int bar_cells;     /* over 0: a column of bars so many cells long */
} plm_table_column;

typedef enum plm_table_emphasis {
    PLM_TABLE_PLAIN,
    PLM_TABLE_BOLD,
    PLM_TABLE_DIM
} plm_table_emphasis;

typedef struct plm_table_style {
    bool colour;      /* bold and dim by escape sequences: the caller has seen a terminal */
    int indent_cells; /* before each line */
} plm_table_style;

typedef struct plm_table_cell_place {
    int64_t start; /* of the cell's text in `texts` */
    int64_t bytes;
    int64_t cells;  /* its width on a terminal */
    double portion; /* of a bar, 0 to 1 */
} plm_table_cell_place;

typedef struct plm_table_line {
    int64_t first_cell;
    int cell_count; /* cells given so far; -1: a rule */
    plm_table_emphasis emphasis;
} plm_table_line;

typedef struct plm_table {
    plm_table_column columns[PLM_TABLE_COLUMNS_MAX];
    int column_count;
    plm_text texts; /* holds the status */
    PLM_ARRAY(plm_table_cell_place) places;
    PLM_ARRAY(plm_table_line) lines;
} plm_table;

/* An empty table. Columns are copied, their titles borrowed until plm__table_fini. Cannot fail. */
void plm__table_init(plm_table *table, const plm_table_column *columns, int count);

void plm__table_fini(plm_table *table);

/* Begins a row; cells follow from left to right, and those that are left out stay empty. */
void plm__table_row(plm_table *table, plm_table_emphasis emphasis);

/* The next cell of the row. More cells than columns are a broken contract. */
void plm__table_cell(plm_table *table, const char *format, ...) PLM_PRINTF(2, 3);

/* The next cell of the row, in a column of bars: `portion` of its length, cut to 0..1. */
void plm__table_bar(plm_table *table, double portion);

/* A rule over the whole width, as before a total. */
void plm__table_rule(plm_table *table);

/*
 * Appends the table to `out`: header, rule, rows, each line ended by a newline and without blanks
 * at its end. The table stays as it is. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm__table_render(const plm_table *table, plm_table_style style,
                                          plm_text *out);

/* How many cells of a terminal `count` bytes of UTF-8 take, each faulty byte counted as one. */
int64_t plm__text_cells(const char *bytes, int64_t count);

#endif
