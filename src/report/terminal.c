/* SPDX-License-Identifier: MIT */
/* Pages for a terminal. Like plm_text, the first failure sticks. */
#include "report/terminal.h"

#include <stdarg.h>
#include <string.h>

#include "base/number.h"
#include "plimsoll/size.h"
#include "report/wrap.h"

enum { INDENT = 2, SENTENCE_MAX = 1024 };

plm_page plm__page_begin(plm_report_style style)
{
    int64_t columns = style.columns ? style.columns : PLM_REPORT_COLUMNS_DEFAULT;
    return (plm_page){
        .table = {.colour = style.colour, .indent_cells = INDENT},
        .columns = columns > PLM_REPORT_COLUMNS_MIN ? columns : PLM_REPORT_COLUMNS_MIN,
        .rows = style.rows > 0 ? style.rows : PLM_REPORT_ROWS_DEFAULT,
        .hints = style.hints,
    };
}

const char *plm__hint_text(const char *const *hints, plm_hint hint)
{
    static const char *const words[] = {
#define HINT_ROW(name, words) words,
        PLM_HINT_MAP(HINT_ROW)
#undef HINT_ROW
    };
    return hints && hints[hint] ? hints[hint] : words[hint];
}

void plm__page_heading(plm_page *page, const char *format, ...)
{
    char sentence[SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    plm__print_list(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    plm__text_add(&page->text, "%s%s%s\n", page->table.colour ? "\x1b[1m" : "", sentence,
                  page->table.colour ? "\x1b[0m" : "");
}

void plm__page_say(plm_page *page, int64_t indent, const char *format, ...)
{
    char sentence[SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    plm__print_list(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    plm__text_wrap(&page->text, sentence, page->columns - indent, indent);
}

void plm__page_words(plm_page *page, plm_text *words)
{
    plm_status status = plm__text_status(words);
    if (status == PLM_OK && words->count > 0)
        plm__text_wrap(&page->text, words->items, page->columns, 0);
    if (status != PLM_OK && page->text.status == PLM_OK)
        page->text.status = status;
    plm__text_fini(words);
}

void plm__page_gap(plm_page *page)
{
    plm__text_add(&page->text, "\n");
}

void plm__page_table(plm_page *page, plm_table *table)
{
    plm_status status = plm__table_render(table, page->table, &page->text);
    if (status != PLM_OK && page->text.status == PLM_OK)
        page->text.status = status;
    plm__table_fini(table);
}

void plm__page_section(plm_page *page, plm_table *table)
{
    plm__page_table(page, table);
    plm__page_gap(page);
}

void plm__page_size_cell(plm_table *table, size_t bytes)
{
    char text[PLM_SIZE_TEXT];
    plm__table_cell(table, "%s", plm_size_format(bytes, text));
}

void plm__page_size_row(plm_table *table, const char *what, size_t bytes, const char *remark)
{
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", what);
    plm__page_size_cell(table, bytes);
    plm__table_cell(table, "%s", remark);
}

void plm__page_cut_cell(plm_table *table, const char *text, int64_t cells)
{
    if (plm__text_cells(text, (int64_t)strlen(text)) <= cells) {
        plm__table_cell(table, "%s", text);
        return;
    }
    while (*text && plm__text_cells(text, (int64_t)strlen(text)) > cells - 1)
        do
            text++;
        while (((unsigned char)*text & 0xc0) == 0x80);
    plm__table_cell(table, "…%s", text);
}

plm_status plm__page_end(plm_page *page, char **text)
{
    plm_status status = plm__text_status(&page->text);
    if (status == PLM_OK)
        *text = page->text.items;
    else
        plm__text_fini(&page->text);
    return status;
}
