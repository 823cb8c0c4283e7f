/* SPDX-License-Identifier: MIT */
/* The checklist: a question and its answer, what decides, one thing to do, what it rests on. */
#include <string.h>

#include "plimsoll/size.h"
#include "report/checklist.h"

enum { INDENT = 2, INNER = 4, FIGURE_CELLS = 56 };

static void add_figures(plm_page *page, const plm_checklist_item *check)
{
    static const plm_table_column columns[] = {{0}, {0}, {.right = true}, {.right = true}};
    plm_table table;
    if (check->figure_count == 0)
        return;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < check->figure_count; i++) {
        const plm_checklist_figure *figure = &check->figures[i];
        plm__table_row(&table, PLM_TABLE_DIM);
        plm__table_cell(&table, "  %s", figure->what);
        plm__page_cut_cell(&table, figure->site, page->columns - FIGURE_CELLS);
        if (figure->blocks > 0)
            plm__table_cell(&table, "%lld ×", (long long)figure->blocks);
        else
            plm__table_cell(&table, "%s", "");
        plm__page_size_cell(&table, figure->bytes);
    }
    plm__page_table(page, &table);
}

static void add_check(plm_page *page, plm_question kind, const plm_checklist_item *check)
{
    static const char *const answers[] = {"This cannot be told.", "No.", "Yes."};
    char gain[PLM_SIZE_TEXT];
    plm__page_heading(page, "  %s %s", plm_question_text(kind), answers[check->answer]);
    plm__page_say(page, INNER, "Why: %s.", check->reason);
    if (check->action[0] && check->gain_bytes > 0)
        plm__page_say(page, INNER, "To do: %s. Gain: %s.", check->action,
                      plm_size_format(check->gain_bytes, gain));
    else if (check->action[0])
        plm__page_say(page, INNER, "To do: %s.", check->action);
    plm__page_say(page, INNER, "Rests on: %s.", check->basis);
    add_figures(page, check);
    plm__page_gap(page);
}

/* How many answers from the first on are the same sentence that nothing can be told. */
static int count_open(const plm_checklist *list)
{
    int count = 0;
    while (count < PLM_QUESTION_COUNT && list->items[count].answer == PLM_ANSWER_UNKNOWN &&
           strcmp(list->items[count].reason, list->items[0].reason) == 0)
        count++;
    return count > 1 ? count : 0;
}

void plm__checklist_page(plm_page *page, const plm_checklist *list)
{
    int open = count_open(list);
    plm__page_heading(page, "Checklist");
    for (int i = 0; i < open; i++)
        plm__page_heading(page, "  %s%s", plm_question_text((plm_question)i),
                          i + 1 < open ? "" : " This cannot be told.");
    if (open > 0) {
        plm__page_say(page, INNER, "Why: %s.", list->items[0].reason);
        plm__page_say(page, INNER, "To do: %s.", list->items[0].action);
        plm__page_gap(page);
    }
    for (int i = open; i < PLM_QUESTION_COUNT; i++)
        add_check(page, (plm_question)i, &list->items[i]);
}

static void write_figures(plm_json_writer *json, const plm_checklist_item *check)
{
    plm__json_begin_array(json, "figures");
    for (int i = 0; i < check->figure_count; i++) {
        const plm_checklist_figure *figure = &check->figures[i];
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "what", figure->what);
        plm__json_text(json, "site", figure->site[0] ? figure->site : NULL);
        plm__json_int(json, "blocks", figure->blocks);
        plm__json_bytes(json, "bytes", figure->bytes);
        plm__json_end(json);
    }
    plm__json_end(json);
}

void plm__checklist_json(plm_json_writer *json, const plm_checklist *list)
{
    static const char *const answers[] = {"unknown", "no", "yes"};
    plm__json_begin_array(json, "checklist");
    for (int i = 0; i < PLM_QUESTION_COUNT; i++) {
        const plm_checklist_item *check = &list->items[i];
        plm__json_begin_object(json, NULL);
        plm__json_text(json, "question", plm_question_key((plm_question)i));
        plm__json_text(json, "answer", answers[check->answer]);
        plm__json_text(json, "reason", check->reason);
        plm__json_text(json, "action", check->action[0] ? check->action : NULL);
        plm__json_bytes(json, "gain_bytes", check->gain_bytes);
        plm__json_text(json, "basis", check->basis);
        write_figures(json, check);
        plm__json_end(json);
    }
    plm__json_end(json);
}
