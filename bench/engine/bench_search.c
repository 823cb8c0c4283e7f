/* SPDX-License-Identifier: MIT */
/*
 * How long the search for a strategy takes, everything left open, and what it looks at: pricing
 * into a frontier, then the choice for a budget halfway between the smallest and the largest need.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "plimsoll/model.h"
#include "plan/search.h"
#include "engine/fake_device.h"

static void die_unless(plm_status status)
{
    if (status == PLM_OK)
        return;
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

static double lap_ms(int64_t *start)
{
    int64_t now = plm__clock_ns(), since = now - *start;
    *start = now;
    return (double)since * 1e-6;
}

static void measure(const char *name, int64_t batch, plm_device *device)
{
    plm_model model;
    plm_search *search = NULL;
    plm_plan *plan = NULL;
    size_t smallest, largest;
    plm_strategy strategy = plm_strategy_default();
    strategy.head_chunks = strategy.mlp_chunks = 0;
    strategy.recompute = PLM_RECOMPUTE_AUTO;
    die_unless(plm_model_parse(name, &model));
    plm_job job = {.network = plm_model_network(&model),
                   .batch = batch,
                   .sequence = model.context,
                   .trains = true,
                   .evaluates = true,
                   .generates = true};
    int64_t start = plm__clock_ns();
    die_unless(plm__search_create(&job, &strategy, device, &search));
    double price = lap_ms(&start);
    die_unless(plm__search_smallest(search, &smallest));
    die_unless(plm__search_plan(search, SIZE_MAX, &plan));
    largest = plm_plan_summarize(plan).peak_bytes;
    plm_plan_destroy(plan);
    double ends = lap_ms(&start);
    die_unless(plm__search_plan(search, smallest / 2 + largest / 2, &plan));
    double choice = lap_ms(&start);
    plm_search_size size = plm__search_count(search);
    printf("%-60s batch %3lld: prices %6.0f ms from %lld plans, ends %5.0f ms, choice %5.0f ms; "
           "%lld strategies, %lld on the frontier, %lld planned; %.2f to %.2f GiB\n",
           name, (long long)batch, price, (long long)size.sketched, ends, choice,
           (long long)size.priced, (long long)size.frontier, (long long)size.planned,
           (double)smallest / 0x1p30, (double)largest / 0x1p30);
    plm_plan_destroy(plan);
    plm__search_destroy(search);
}

int main(void)
{
    plm_device *cpu = NULL;
    die_unless(plm_device_open("cpu", 0, 0, &cpu));
    fake_device fake = fake_device_make(1 << 20, 0);
    plm_device *devices[] = {&fake.head, cpu};
    for (int i = 0; i < 2; i++) {
        puts(i == 0 ? "a device by formulas" : "this CPU");
        measure("gpt2", 32, devices[i]);
        measure("gpt2-xl", 32, devices[i]);
        measure("gpt:layers=80,width=8192,heads=64,context=4096,vocab=128256", 32, devices[i]);
    }
    plm_device_destroy(cpu);
    return 0;
}
