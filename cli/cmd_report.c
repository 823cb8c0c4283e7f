/* SPDX-License-Identifier: MIT */
/* plimsoll report: recordings of PyTorch's memory as a page, for Perfetto, or in PyTorch's form. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/export.h"
#include "plimsoll/report.h"

enum { SOURCES_MAX = 64, NAME_MAX_BYTES = 96 };

typedef struct report_settings {
    const char *out;
    int format; /* a form, or -1: told by the end of `out` */
    const char *title;
    bool json;
} report_settings;

/* One row a form: name, what the name of such a file ends with. */
static const struct {
    const char *name;
    const char *end;
} forms[] = {{"html", ".html"}, {"perfetto", ".json"}, {"pickle", ".pickle"}};

enum { FORM_HTML, FORM_PERFETTO, FORM_PICKLE, FORM_COUNT };

static const plm_option options[] = {
    {"out", PLM_OPTION_TEXT, offsetof(report_settings, out), "FILE", "report.html", NULL,
     "what is written", NULL},
    {"format", PLM_OPTION_CHOICE, offsetof(report_settings, format), "FORM", NULL,
     "html|perfetto|pickle", "default: by the name of the file (.html, .json, .pickle)", NULL},
    {"title", PLM_OPTION_TEXT, offsetof(report_settings, title), "TEXT", NULL, NULL,
     "over the page; default: the name of the first recording", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(report_settings, json), NULL, NULL, NULL,
     "print one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll report",
    .summary = "Writes what a PyTorch memory snapshot recorded as one HTML page that needs no "
               "network: memory over time, the peak, the segments at any instant, lists that sort. "
               "Several files are ranks of one job.",
    .operands = "SNAPSHOT...",
    .operands_least = 1,
    .operands_most = PLM_OPERANDS_MAX,
    CLI_OPTIONS(options),
    .example = "plimsoll report snapshot.pickle --out report.html\n"
               "  plimsoll report snapshot.pickle --out trace.json",
};

/* Every device of every file. Texts of sources point into `names` when there are several files. */
typedef struct collection {
    plm_snapshot *snapshots[PLM_OPERANDS_MAX];
    plm_export_source *of_file[PLM_OPERANDS_MAX];
    plm_export_source sources[SOURCES_MAX];
    char names[SOURCES_MAX][NAME_MAX_BYTES];
    int64_t count;
} collection;

static plm_status collect(collection *all, const plm_operands *operands, int file)
{
    int64_t count;
    plm_status status = plm_snapshot_read(operands->items[file], &all->snapshots[file]);
    if (status == PLM_OK)
        status = plm_export_sources_of(all->snapshots[file], &all->of_file[file], &count);
    if (status != PLM_OK)
        return status;
    for (int64_t i = 0; i < count && all->count < SOURCES_MAX; i++, all->count++) {
        plm_export_source *source = &all->sources[all->count];
        *source = all->of_file[file][i];
        if (operands->count == 1)
            continue;
        snprintf(all->names[all->count], NAME_MAX_BYTES, "%.70s, %s",
                 cli_file_name(operands->items[file]), source->name);
        source->name = all->names[all->count];
    }
    return PLM_OK;
}

static void let_go(collection *all)
{
    for (int file = 0; file < PLM_OPERANDS_MAX; file++) {
        plm_free(all->of_file[file]);
        plm_snapshot_destroy(all->snapshots[file]);
    }
}

static int choose_form(const report_settings *settings)
{
    size_t length = strlen(settings->out);
    for (int form = 0; form < FORM_COUNT && settings->format < 0; form++) {
        size_t end = strlen(forms[form].end);
        if (length >= end && strcmp(settings->out + length - end, forms[form].end) == 0)
            return form;
    }
    return settings->format < 0 ? FORM_HTML : settings->format;
}

static plm_status write_form(int form, const report_settings *settings, const collection *all,
                             const char *title)
{
    if (form == FORM_PERFETTO)
        return plm_export_perfetto(settings->out, all->sources, all->count);
    if (form == FORM_PICKLE)
        return plm_export_snapshot(settings->out, all->sources, all->count);
    return plm_export_page(settings->out, title, all->sources, all->count);
}

static plm_status print_result(int form, const report_settings *settings, const collection *all)
{
    char *line = NULL;
    if (!settings->json) {
        printf("wrote %s\n", settings->out);
        return PLM_OK;
    }
    plm_status status =
        plm_export_json(settings->out, forms[form].name, all->sources, all->count, &line);
    return cli_print(status, line, true);
}

int cmd_report(int argc, char **argv)
{
    report_settings settings;
    plm_operands operands;
    collection all = {0};
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
        return exit_status;
    plm_status status = PLM_OK;
    for (int file = 0; file < operands.count && status == PLM_OK; file++)
        status = collect(&all, &operands, file);
    int form = choose_form(&settings);
    const char *title = settings.title ? settings.title : cli_file_name(operands.items[0]);
    if (status == PLM_OK)
        status = write_form(form, &settings, &all, title);
    if (status == PLM_OK)
        status = print_result(form, &settings, &all);
    let_go(&all);
    return cli_finish(status);
}
