/* SPDX-License-Identifier: MIT */
/* An out-of-memory message explained, as a page and as JSON. */
#include <stdio.h>

#include "base/json.h"
#include "plimsoll/doctor.h"
#include "plimsoll/size.h"
#include "report/terminal.h"
#include "report/wrap.h"

enum { INDENT = 2 };

static const struct {
    const char *key, *text;
} forms[] =
    {
#define PLM_OOM_FORM_ROW(name, key, text) {key, text},
        PLM_OOM_FORM_MAP(PLM_OOM_FORM_ROW)
#undef PLM_OOM_FORM_ROW
},
  figures[] = {
#define PLM_OOM_FIGURE_ROW(name, key, text) {key, text},
      PLM_OOM_FIGURE_MAP(PLM_OOM_FIGURE_ROW)
#undef PLM_OOM_FIGURE_ROW
};

/* In the order of plm_oom_finding_kind. */
static const struct {
    const char *key, *heading;
} kinds[] = {
    {"proves", "What it proves"},
    {"cannot_prove", "What it cannot tell"},
    {"next", "What to do next"},
};

/* "rank 3, GPU 1" */
static void add_place(plm_text *out, int32_t rank, int32_t device)
{
    if (rank >= 0)
        plm__text_add(out, "rank %d%s", rank, device >= 0 ? ", " : "");
    if (device >= 0)
        plm__text_add(out, "GPU %d", device);
    if (rank < 0 && device < 0)
        plm__text_add(out, "no rank named");
}

static void add_sources(plm_text *out, const plm_oom_report *report)
{
    if (report->message_count < 2)
        return;
    plm__text_add(out, "The last of %lld messages:\n", (long long)report->message_count);
    for (int32_t i = 0; i < report->source_count; i++) {
        const plm_oom_source *source = &report->sources[i];
        plm__text_add(out, "  %lld from ", (long long)source->count);
        add_place(out, source->rank, source->device);
        plm__text_add(out, ", first on line %lld\n", (long long)source->first_line);
    }
    if (report->sources_left_out)
        plm__text_add(out, "  and from more ranks than are listed here\n");
    plm__text_add(out, "\n");
}

static void add_figures(plm_page *page, const plm_oom_report *report)
{
    static const plm_table_column columns[] = {{.title = NULL}, {.right = true}};
    plm_table table;
    bool any = false;
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int kind = 0; kind < PLM_OOM_FIGURE_COUNT; kind++) {
        const plm_oom_figure *figure = &report->message.figures[kind];
        if (!figure->known)
            continue;
        any = true;
        plm__table_row(&table, PLM_TABLE_PLAIN);
        plm__table_cell(&table, "%s", figures[kind].text);
        if (figure->bytes == SIZE_MAX)
            plm__table_cell(&table, "no end");
        else
            plm__page_size_cell(&table, figure->bytes);
    }
    plm__page_table(page, &table);
    if (any)
        plm__page_gap(page);
}

static void add_findings(plm_page *page, const plm_oom_report *report)
{
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        bool any = false;
        for (int32_t i = 0; i < report->finding_count; i++) {
            if ((int)report->findings[i].kind != kind)
                continue;
            if (!any) {
                plm__page_gap(page);
                plm__page_heading(page, "%s", kinds[kind].heading);
            }
            any = true;
            int64_t before = page->text.count;
            plm__text_wrap(&page->text, report->findings[i].text, page->columns, 2 * INDENT);
            if (page->text.status == PLM_OK)
                page->text.items[before + INDENT] = '-';
        }
    }
}

plm_status plm_oom_report_text(const plm_oom_report *report, plm_report_style style, char **text)
{
    const plm_oom_message *message = &report->message;
    plm_page page = plm__page_begin(style);
    bool placed = message->rank >= 0 || message->device >= 0;
    add_sources(&page.text, report);
    if (placed)
        add_place(&page.text, message->rank, message->device);
    plm__text_add(&page.text, "%sline %lld: %s%s%s\n\n", placed ? ", " : "",
                  (long long)message->line, message->backend, message->backend[0] ? ", " : "",
                  forms[message->form].text);
    add_figures(&page, report);
    plm__page_heading(&page, "Verdict");
    plm__text_add(&page.text, "  %s%s\n", plm_verdict_title(report->verdict),
                  report->verdict == PLM_VERDICT_UNKNOWN ? ""
                  : report->proven                       ? " (proven by the figures)"
                                                         : " (possible, not proven)");
    add_findings(&page, report);
    return plm__page_end(&page, text);
}

/* A number, or null below 0. */
static void write_number(plm_json_writer *json, const char *key, int32_t number)
{
    if (number < 0)
        plm__json_text(json, key, NULL);
    else
        plm__json_int(json, key, number);
}

static void write_message(plm_json_writer *json, const plm_oom_message *message)
{
    plm__json_text(json, "wording", forms[message->form].key);
    plm__json_text(json, "backend", message->backend[0] ? message->backend : NULL);
    write_number(json, "device", message->device);
    write_number(json, "rank", message->rank);
    plm__json_int(json, "line", message->line);
    for (int kind = 0; kind < PLM_OOM_FIGURE_COUNT; kind++) {
        const plm_oom_figure *figure = &message->figures[kind];
        if (figure->known && figure->bytes != SIZE_MAX)
            plm__json_bytes(json, figures[kind].key, figure->bytes);
        else
            plm__json_text(json, figures[kind].key, NULL);
    }
}

static void write_sources(plm_json_writer *json, const plm_oom_report *report)
{
    plm__json_begin_array(json, "sources");
    for (int32_t i = 0; i < report->source_count; i++) {
        plm__json_begin_object(json, NULL);
        write_number(json, "rank", report->sources[i].rank);
        write_number(json, "device", report->sources[i].device);
        plm__json_int(json, "messages", report->sources[i].count);
        plm__json_int(json, "first_line", report->sources[i].first_line);
        plm__json_end(json);
    }
    plm__json_end(json);
}

plm_status plm_oom_report_json(const plm_oom_report *report, char **line)
{
    plm_json_writer json = {0};
    plm__json_begin_object(&json, NULL);
    plm__json_text(&json, "verdict", plm_verdict_word(report->verdict));
    plm__json_bool(&json, "proven", report->proven);
    write_message(&json, &report->message);
    plm__json_int(&json, "messages", report->message_count);
    write_sources(&json, report);
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        plm__json_begin_array(&json, kinds[kind].key);
        for (int32_t i = 0; i < report->finding_count; i++)
            if ((int)report->findings[i].kind == kind)
                plm__json_text(&json, NULL, report->findings[i].text);
        plm__json_end(&json);
    }
    return plm__json_finish(&json, line);
}
