/* SPDX-License-Identifier: MIT */
/*
 * Tables: cells are kept as clean text with their width; rendering finds each column's width and
 * pads. A bar is drawn in eighths of a cell.
 */
#include "report/table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

enum { CELL_BYTES_MAX = 1024 }; /* longer cells are cut */

static const char *const escape_on[] = {
    [PLM_TABLE_PLAIN] = "", [PLM_TABLE_BOLD] = "\x1b[1m", [PLM_TABLE_DIM] = "\x1b[2m"};
static const char escape_off[] = "\x1b[0m";

/* ---- letters ------------------------------------------------------------------------------- */

/* Ranges of code points that take no cell or two; the rest take one. Sorted. */
static const struct {
    uint32_t first, last;
    int cells;
} widths[] = {
    {0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x1ab0, 0x1aff, 0},   {0x1dc0, 0x1dff, 0},
    {0x200b, 0x200f, 0},   {0x202a, 0x202e, 0},   {0x2060, 0x2064, 0},   {0x20d0, 0x20ff, 0},
    {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
    {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},   {0xfeff, 0xfeff, 0},
    {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2},
    {0x1f900, 0x1faff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0},
};

static int cells_of(uint32_t point)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths && widths[i].first <= point; i++)
        if (point <= widths[i].last)
            return widths[i].cells;
    return 1;
}

static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
           (point >= 0x202a && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069); /* the last two reverse what is read */
}

int64_t plm__text_cells(const char *bytes, int64_t count)
{
    int64_t cells = 0;
    for (int64_t i = 0; i < count;) {
        uint32_t point = 0;
        int length = plm__utf8_decode(bytes + i, count - i, &point);
        cells += length > 0 ? cells_of(point) : 1;
        i += length > 0 ? length : 1;
    }
    return cells;
}

/* Appends text with each faulty byte and control character replaced; returns its width. */
static int64_t add_clean(plm_text *out, const char *bytes, int64_t count)
{
    int64_t cells = 0;
    for (int64_t i = 0; i < count;) {
        uint32_t point = 0;
        int length = plm__utf8_decode(bytes + i, count - i, &point);
        bool clean = length > 0 && !is_control(point);
        if (clean)
            plm__text_add_bytes(out, bytes + i, length);
        else
            plm__text_add_bytes(out, "?", 1);
        cells += clean ? cells_of(point) : 1;
        i += length > 0 ? length : 1;
    }
    return cells;
}

/* ---- filling ------------------------------------------------------------------------------- */

void plm__table_init(plm_table *table, const plm_table_column *columns, int count)
{
    PLM_ASSERT(count > 0 && count <= PLM_TABLE_COLUMNS_MAX);
    *table = (plm_table){.column_count = count};
    for (int i = 0; i < count; i++) {
        PLM_ASSERT(columns[i].bar_cells <= PLM_TABLE_BAR_CELLS_MAX);
        table->columns[i] = columns[i];
    }
}

void plm__table_fini(plm_table *table)
{
    plm__text_fini(&table->texts);
    PLM_ARRAY_FREE(&table->places);
    PLM_ARRAY_FREE(&table->lines);
}

static void push_line(plm_table *table, plm_table_line line)
{
    if (table->texts.status == PLM_OK)
        table->texts.status = PLM_ARRAY_PUSH(&table->lines, line);
}

static void push_cell(plm_table *table, plm_table_cell_place place)
{
    if (table->texts.status == PLM_OK)
        table->texts.status = PLM_ARRAY_PUSH(&table->places, place);
    if (table->texts.status != PLM_OK)
        return;
    plm_table_line *line = &table->lines.items[table->lines.count - 1];
    PLM_ASSERT(line->cell_count >= 0 && line->cell_count < table->column_count);
    line->cell_count += 1;
}

void plm__table_row(plm_table *table, plm_table_emphasis emphasis)
{
    push_line(table, (plm_table_line){.first_cell = table->places.count, .emphasis = emphasis});
}

void plm__table_rule(plm_table *table)
{
    push_line(table, (plm_table_line){.cell_count = -1});
}

void plm__table_cell(plm_table *table, const char *format, ...)
{
    char text[CELL_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = plm__print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    PLM_BUG_IF(length < 0, "unprintable format '%s'", format);
    plm_table_cell_place place = {.start = table->texts.count};
    place.cells = add_clean(&table->texts, text, (int64_t)strlen(text));
    place.bytes = table->texts.count - place.start;
    push_cell(table, place);
}

void plm__table_bar(plm_table *table, double portion)
{
    double kept = portion > 0 ? fmin(portion, 1) : 0; /* NaN too is 0 */
    push_cell(table, (plm_table_cell_place){.portion = kept});
}

/* ---- rendering ----------------------------------------------------------------------------- */

static void find_widths(const plm_table *table, int64_t cells[PLM_TABLE_COLUMNS_MAX])
{
    for (int i = 0; i < table->column_count; i++) {
        const char *title = table->columns[i].title ? table->columns[i].title : "";
        int64_t title_cells = plm__text_cells(title, (int64_t)strlen(title));
        int64_t bar_cells = table->columns[i].bar_cells;
        cells[i] = title_cells > bar_cells ? title_cells : bar_cells;
    }
    for (int64_t i = 0; i < table->lines.count; i++) {
        const plm_table_line *line = &table->lines.items[i];
        for (int j = 0; j < line->cell_count; j++) {
            int64_t wanted = table->places.items[line->first_cell + j].cells;
            cells[j] = wanted > cells[j] ? wanted : cells[j];
        }
    }
}

/* Draws a bar of at most `cells`, in eighths; returns the cells drawn. Anything above nothing shows
 * at least an eighth. */
static int64_t add_bar(plm_text *out, double portion, int cells)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int length = (int)lround(portion * cells * 8);
    if (length == 0 && portion > 0)
        length = 1;
    plm__text_repeat(out, "█", length / 8);
    plm__text_add(out, "%s", eighths[length % 8]);
    return (length + 7) / 8;
}

/* One line of columns: blanks are owed and paid only before something visible, so that none stand
 * at the end. */
static void add_cell(plm_text *out, int64_t *owed, const plm_table_column *column, int64_t width,
                     const plm_table_cell_place *place, const char *texts)
{
    int64_t drawn = place->cells;
    if (drawn == 0 && place->portion == 0) {
        *owed += width + PLM_TABLE_GAP_CELLS;
        return;
    }
    plm__text_repeat(out, " ", *owed + (column->right ? width - drawn : 0));
    if (place->cells > 0)
        plm__text_add_bytes(out, texts + place->start, place->bytes);
    else
        drawn = add_bar(out, place->portion, column->bar_cells);
    *owed = (column->right ? 0 : width - drawn) + PLM_TABLE_GAP_CELLS;
}

static void add_line(plm_text *out, const plm_table *table, const plm_table_line *line,
                     const int64_t *cells, plm_table_style style)
{
    bool marked = style.colour && line->emphasis != PLM_TABLE_PLAIN;
    int64_t owed = style.indent_cells;
    plm__text_add(out, "%s", marked ? escape_on[line->emphasis] : "");
    for (int i = 0; i < line->cell_count; i++)
        add_cell(out, &owed, &table->columns[i], cells[i],
                 &table->places.items[line->first_cell + i], table->texts.items);
    plm__text_add(out, "%s\n", marked ? escape_off : "");
}

static void add_rule(plm_text *out, const plm_table *table, const int64_t *cells,
                     plm_table_style style)
{
    int64_t total = (int64_t)(table->column_count - 1) * PLM_TABLE_GAP_CELLS;
    for (int i = 0; i < table->column_count; i++)
        total += cells[i];
    plm__text_repeat(out, " ", style.indent_cells);
    plm__text_add(out, "%s", style.colour ? escape_on[PLM_TABLE_DIM] : "");
    plm__text_repeat(out, "─", total);
    plm__text_add(out, "%s\n", style.colour ? escape_off : "");
}

static void add_header(plm_text *out, const plm_table *table, const int64_t *cells,
                       plm_table_style style)
{
    int64_t owed = style.indent_cells;
    bool titled = false;
    for (int i = 0; i < table->column_count; i++)
        titled = titled || table->columns[i].title;
    if (!titled)
        return;
    plm__text_add(out, "%s", style.colour ? escape_on[PLM_TABLE_BOLD] : "");
    for (int i = 0; i < table->column_count; i++) {
        const char *title = table->columns[i].title ? table->columns[i].title : "";
        int64_t bytes = (int64_t)strlen(title);
        plm_table_cell_place place = {.bytes = bytes, .cells = plm__text_cells(title, bytes)};
        add_cell(out, &owed, &table->columns[i], cells[i], &place, title);
    }
    plm__text_add(out, "%s\n", style.colour ? escape_off : "");
    add_rule(out, table, cells, style);
}

plm_status plm__table_render(const plm_table *table, plm_table_style style, plm_text *out)
{
    int64_t cells[PLM_TABLE_COLUMNS_MAX];
    PLM_TRY(plm__text_status(&table->texts));
    find_widths(table, cells);
    add_header(out, table, cells, style);
    for (int64_t i = 0; i < table->lines.count; i++) {
        const plm_table_line *line = &table->lines.items[i];
        if (line->cell_count < 0)
            add_rule(out, table, cells, style);
        else
            add_line(out, table, line, cells, style);
    }
    return plm__text_status(out);
}
