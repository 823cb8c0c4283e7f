/* SPDX-License-Identifier: MIT */
/*
 * How long planning takes, and where: the graph (builder, backward, update), the device's
 * workspaces, the placement; then the plan whole, its bill and the bill's JSON. Best of several in
 * microseconds, and how far the median is above it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pass/pass.h"
#include "plan/plan.h"
#include "plimsoll/model.h"
#include "plimsoll/plan_report.h"
#include "report/table.h"
#include "kit.h"

enum { ROUNDS = 31 };

enum { PLAN, BUILD, WORKSPACES, PLACE, BILL, JSON, PART_COUNT };

typedef struct sample {
    double us[PART_COUNT][ROUNDS];
} sample;

static void die_unless(plm_status status)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "bench_plan: %s\n", error.message);
    exit(1);
}

/* Microseconds since *start, which becomes now. */
static double lap(int64_t *start)
{
    int64_t now = plm__clock_ns();
    double us = (double)(now - *start) / 1000;
    *start = now;
    return us;
}

static void build_program(plm_graph *graph, const plm_job *job, plm_program program, int64_t count)
{
    plm__graph_begin(graph, program);
    job->network.build(graph, job->network.config, program, count, job->sequence);
}

/* The programs of the job, as a plan builds them. */
static plm_graph *build(const plm_job *job, const plm_strategy *strategy)
{
    plm_graph *graph = NULL;
    die_unless(plm__graph_create(strategy, &graph));
    for (int program = PLM_PROGRAM_FIRST; program <= PLM_PROGRAM_NEXT; program++) {
        build_program(graph, job, (plm_program)program, strategy->micro_batch);
        die_unless(plm__pass_backward(graph));
    }
    die_unless(plm__pass_update(graph, job->optimizer));
    build_program(graph, job, PLM_PROGRAM_EVALUATE, strategy->micro_batch);
    build_program(graph, job, PLM_PROGRAM_GENERATE, 1);
    die_unless(plm__pass_initialize(graph));
    return graph;
}

static void ask(const plm_graph *graph, plm_device *device, plm_workspace *workspaces)
{
    for (int64_t i = 0; i < graph->ops.count; i++) {
        plm_launch launch;
        plm__plan_launch(graph, &graph->ops.items[i], &launch);
        die_unless(device->table->workspace(device, &launch, &workspaces[i].bytes));
    }
}

static void place(const plm_graph *graph, plm_place *places, plm_workspace *workspaces)
{
    size_t persistent, bytes, bound;
    die_unless(plm__plan_place_persistent(graph, places, &persistent));
    for (int p = 0; p < PLM_PROGRAM_COUNT; p++) {
        plm__plan_lifetimes(graph, (plm_program)p, places);
        die_unless(plm__plan_place_program(graph, (plm_program)p, persistent, places, workspaces,
                                           &bytes, &bound));
    }
}

/* Each part of planning by itself. */
static void measure_parts(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                          int round, sample *s)
{
    plm_place *places = NULL;
    plm_workspace *workspaces = NULL;
    int64_t start = plm__clock_ns();
    plm_graph *graph = build(job, strategy);
    s->us[BUILD][round] = lap(&start);
    die_unless(plm__host_alloc((size_t)graph->storages.count * sizeof *places, &places));
    die_unless(plm__host_alloc((size_t)graph->ops.count * sizeof *workspaces, &workspaces));
    lap(&start);
    ask(graph, device, workspaces);
    s->us[WORKSPACES][round] = lap(&start);
    place(graph, places, workspaces);
    s->us[PLACE][round] = lap(&start);
    plm__host_free(workspaces);
    plm__host_free(places);
    plm__graph_destroy(graph);
}

static void measure_whole(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                          int round, sample *s)
{
    plm_plan *plan = NULL;
    plm_bill *bill = NULL;
    char *line = NULL;
    int64_t start = plm__clock_ns();
    die_unless(plm_plan_create(job, strategy, device, &plan));
    s->us[PLAN][round] = lap(&start);
    die_unless(plm_plan_bill(plan, "", 0, &bill));
    s->us[BILL][round] = lap(&start);
    die_unless(plm_report_bill_json(bill, &line));
    s->us[JSON][round] = lap(&start);
    plm_free(line);
    plm_bill_destroy(bill);
    plm_plan_destroy(plan);
}

static void add_row(plm_table *table, const char *name, const plm_job *job, plm_device *device,
                    plm_attention_form form)
{
    sample s;
    plm_strategy strategy = plm_strategy_default();
    strategy.micro_batch = job->batch / 2; /* NEXT is built too */
    strategy.attention = form;
    for (int round = 0; round < ROUNDS; round++) {
        measure_whole(job, &strategy, device, round, &s);
        measure_parts(job, &strategy, device, round, &s);
    }
    plm__table_row(table, PLM_TABLE_PLAIN);
    plm__table_cell(table, "%s", name);
    plm__table_cell(table, "%s", plm_attention_text(form));
    for (int part = 0; part < PART_COUNT; part++) {
        qsort(s.us[part], ROUNDS, sizeof s.us[part][0], ascending);
        double best = s.us[part][0], median = s.us[part][ROUNDS / 2];
        plm__table_cell(table, "%.0f +%.0f %%", best, 100 * (median / best - 1));
    }
}

static void fill(plm_table *table, plm_device *device)
{
    static const char *const cases[][2] = {
        {"gpt2", "gpt2"},
        {"96 layers", "gpt:layers=96,width=1600,heads=25,context=1024,vocab=50257"},
        {"2 layers", "gpt:layers=2,width=256,heads=4,context=256,vocab=256,dropout=0.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_model model;
        die_unless(plm_model_parse(cases[i][1], &model));
        plm_job job = {.network = plm_model_network(&model),
                       .batch = 8,
                       .sequence = model.context,
                       .trains = true,
                       .evaluates = true,
                       .generates = true};
        for (int form = 0; form < 2; form++)
            add_row(table, cases[i][0], &job, device, (plm_attention_form)form);
    }
}

int main(void)
{
    static const plm_table_column columns[] = {
        {.title = "model"},
        {.title = "attention"},
        {.title = "plan, us", .right = true},
        {.title = "build", .right = true},
        {.title = "workspaces", .right = true},
        {.title = "place", .right = true},
        {.title = "bill", .right = true},
        {.title = "JSON", .right = true},
    };
    plm_device *device = NULL;
    plm_table table;
    plm_text text = {0};
    die_unless(plm_device_open("cpu", 0, 0, &device));
    plm__table_init(&table, columns, sizeof columns / sizeof *columns);
    fill(&table, device);
    die_unless(plm__table_render(&table, (plm_table_style){0}, &text));
    fputs(text.items, stdout);
    plm__text_fini(&text);
    plm__table_fini(&table);
    plm_device_destroy(device);
    return 0;
}
