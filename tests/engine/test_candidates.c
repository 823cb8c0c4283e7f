/* SPDX-License-Identifier: MIT */
/*
 * What the search prices: micro-batches, chunks and mixtures at the edges of what it looks at; and
 * the treatments that advice names.
 */
#include "graph/strategy.h"
#include "plan/plan.h"
#include "plan/search_internal.h"
#include "plimsoll/advice.h"
#include "plimsoll/device_profile.h"
#include "plan/search.h"
#include "engine/fake_plan.h"

#define TINY "gpt:layers=1,width=8,heads=1,context=4,vocab=16"

typedef struct shop {
    plm_model model;
    plm_job job;
    fake_device device;
} shop;

static void shop_open(shop *s, const char *description, int64_t batch)
{
    assert_ok(plm_model_parse(description, &s->model));
    s->job = job_of(&s->model, batch, s->model.context);
    s->device = fake_device_make(0, 0);
}

/* Nothing is open but what the caller opens. */
static plm_strategy closed(int64_t micro_batch)
{
    plm_strategy strategy = strategy_of(micro_batch, PLM_ATTENTION_FUSED);
    strategy.head_chunks = strategy.mlp_chunks = 1;
    strategy.recompute = PLM_RECOMPUTE_NONE;
    return strategy;
}

static plm_plan_summary plan_with(shop *s, const plm_strategy *strategy)
{
    plm_plan *plan = NULL;
    assert_ok(plm_plan_create(&s->job, strategy, &s->device.head, &plan));
    plm_plan_summary summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return summary;
}

static plm_plan_summary chosen_for(plm_search *search, size_t budget)
{
    plm_plan *plan = NULL;
    assert_ok(plm__search_plan(search, budget, &plan));
    plm_plan_summary summary = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    return summary;
}

/* ---- micro-batches -------------------------------------------------------------------------- */

/* 120 has 16 divisors, 180 has 18 and 360 has 24. A larger micro-batch is faster and needs more, so
 * each that is priced is on the frontier. */
static void at_most_16_micro_batches_are_priced_with_the_smallest_and_the_largest(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, priced;
    } cases[] = {{64, 7}, {120, 16}, {180, 16}, {360, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shop s;
        plm_search *search = NULL;
        size_t smallest;
        plm_strategy strategy = closed(0), least = closed(1);
        shop_open(&s, TINY, cases[i].batch);
        assert_ok(plm__search_create(&s.job, &strategy, &s.device.head, &search));
        assert_int_equal(plm__search_count(search).frontier, cases[i].priced);
        assert_ok(plm__search_smallest(search, &smallest));
        assert_int_equal(smallest, plan_with(&s, &least).peak_bytes);
        assert_int_equal(chosen_for(search, smallest).strategy.micro_batch, 1);
        assert_int_equal(chosen_for(search, SIZE_MAX).strategy.micro_batch, cases[i].batch);
        plm__search_destroy(search);
    }
}

/* ---- chunks --------------------------------------------------------------------------------- */

static void a_head_is_cut_into_as_many_chunks_as_it_has_rows(void **state)
{
    (void)state;
    for (int64_t rows = 3; rows <= 5; rows++) {
        shop s;
        plm_search *search = NULL;
        size_t smallest;
        plm_strategy strategy = closed(1);
        strategy.head_chunks = 0;
        shop_open(&s, "gpt:layers=1,width=8,heads=1,context=5,vocab=4096", 1);
        s.job.sequence = rows;
        assert_ok(plm__search_create(&s.job, &strategy, &s.device.head, &search));
        assert_ok(plm__search_smallest(search, &smallest));
        assert_int_equal(chosen_for(search, smallest).strategy.head_chunks, rows < 4 ? 2 : 4);
        plm__search_destroy(search);
    }
}

/* Where a launch takes no time and products decide, chunks cost nothing. */
static void of_equally_fast_strategies_the_smallest_is_chosen(void **state)
{
    (void)state;
    shop s;
    plm_search *search = NULL;
    size_t smallest;
    plm_device_profile profile = {.name = "products alone", .bandwidth = 1e18};
    plm_strategy strategy = closed(8);
    profile.product_flops[PLM_DTYPE_F32] = 1e9;
    strategy.head_chunks = 0;
    shop_open(&s, "gpt:layers=1,width=8,heads=1,context=4,vocab=4096", 8);
    plm_device_use_profile(&s.device.head, &profile);
    assert_ok(plm__search_create(&s.job, &strategy, &s.device.head, &search));
    assert_ok(plm__search_smallest(search, &smallest));
    plm_plan_summary chosen = chosen_for(search, SIZE_MAX);
    assert_int_equal(chosen.peak_bytes, smallest);
    assert_int_equal(chosen.strategy.head_chunks, 32);
    plm__search_destroy(search);
}

/* ---- mixtures ------------------------------------------------------------------------------- */

static void no_mixture_of_two_rungs_that_fits_is_faster_than_the_choice(void **state)
{
    (void)state;
    static const char *const rungs[] = {"none", "act", "norm", "mlp", "mlp+attention", "block"};
    enum { RUNGS = 6, BLOCKS = 4 };
    shop s;
    plm_search *search = NULL;
    plm_strategy open = closed(2);
    open.recompute = PLM_RECOMPUTE_AUTO;
    shop_open(&s, "gpt:layers=4,width=32,heads=2,context=16,vocab=40", 2);
    assert_ok(plm__search_create(&s.job, &open, &s.device.head, &search));
    for (int i = 0; i < RUNGS * RUNGS * (BLOCKS + 1); i++) {
        int split = i % (BLOCKS + 1), first = i / (BLOCKS + 1) % RUNGS;
        int later = i / (BLOCKS + 1) / RUNGS;
        plm_strategy mixed = closed(2);
        mixed.recompute_count = BLOCKS;
        for (int block = 0; block < BLOCKS; block++)
            assert_ok(plm__recompute_parse(rungs[block < split ? first : later],
                                           &mixed.recompute_of[block]));
        plm_plan_summary wanted = plan_with(&s, &mixed);
        plm_plan_summary chosen = chosen_for(search, wanted.peak_bytes);
        assert_true(chosen.peak_bytes <= wanted.peak_bytes);
        assert_true(chosen.step_cost <= wanted.step_cost);
    }
    plm__search_destroy(search);
}

/* Where nothing is trained, evaluation is all that there is, in blocks and outside of them. */
static void the_price_of_a_run_that_only_evaluates_is_its_plans_bound(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt:layers=3,width=32,heads=2,context=16,vocab=16",
                                         "gpt:layers=1,width=8,heads=1,context=16,vocab=4096"};
    for (int i = 0; i < 2; i++) {
        shop s;
        plm__price price = {0};
        size_t bound;
        int64_t cost;
        plm_strategy strategy = closed(2);
        shop_open(&s, models[i], 2);
        s.job.trains = s.job.generates = false;
        assert_ok(plm__price_make(&s.job, &strategy, &s.device.head, NULL, &price));
        plm__price_mix(&price, &price, &price, 0, &bound, &cost);
        assert_int_equal(bound, plan_with(&s, &strategy).lower_bound_bytes);
        plm__price_fini(&price);
    }
}

/* ---- advice --------------------------------------------------------------------------------- */

static const plm_alternative *treatment(const plm_advice *advice, const char *what)
{
    for (int i = 0; i < advice->alternative_count; i++)
        if (strcmp(advice->alternatives[i].what, what) == 0)
            return &advice->alternatives[i];
    return NULL;
}

static void treatments_are_named_where_they_need_less(void **state)
{
    (void)state;
    shop s;
    plm_advice *advice = NULL;
    plm_strategy strategy = closed(1);
    shop_open(&s, "gpt:layers=2,width=8,heads=1,context=8,vocab=16", 4);
    s.job.sequence = 7;
    assert_ok(plm_advise(&s.job, &strategy, &s.device.head, 1, &advice));
    assert_false(advice->fits);
    for (int i = 0; i < advice->alternative_count; i++)
        assert_true(advice->alternatives[i].plan.peak_bytes < advice->smallest_budget_bytes);
    const plm_alternative *half = treatment(advice, "sequences half as long");
    assert_non_null(half);
    assert_int_equal(half->plan.sequence, 4); /* of 7, rounded up */
    assert_int_equal(half->change_count, 1);
    assert_int_equal(half->changes[0].choice, PLM_HINT_SEQUENCE);
    assert_string_equal(half->changes[0].value, "4");
    /* A micro-batch of 1 is the smallest already. */
    assert_null(treatment(advice, "a micro-batch that the plan chooses"));
    plm_advice_destroy(advice);
}

static void a_treatment_fits_in_exactly_its_peak(void **state)
{
    (void)state;
    shop s;
    plm_advice *advice = NULL;
    plm_strategy strategy = closed(4);
    shop_open(&s, "gpt:layers=2,width=8,heads=1,context=8,vocab=16", 4);
    assert_ok(plm_advise_treatments(&s.job, &strategy, &s.device.head, 1, &advice));
    assert_true(advice->alternative_count > 0);
    size_t peak = advice->alternatives[0].plan.peak_bytes;
    plm_advice_destroy(advice);
    for (size_t less = 0; less < 2; less++) {
        assert_ok(plm_advise_treatments(&s.job, &strategy, &s.device.head, peak - less, &advice));
        assert_int_equal(advice->alternatives[0].plan.peak_bytes, peak);
        assert_int_equal(advice->alternatives[0].fits, less == 0);
        plm_advice_destroy(advice);
    }
}

/* "All of these" stands beside the rows that it is made of, where there are two. */
static void all_treatments_together_are_more_than_one(void **state)
{
    (void)state;
    for (int fixed = 1; fixed <= 2; fixed++) {
        shop s;
        plm_advice *advice = NULL;
        plm_strategy strategy = closed(4);
        strategy.head_chunks = strategy.mlp_chunks = 0;
        if (fixed == 1)
            strategy.recompute = PLM_RECOMPUTE_AUTO;
        shop_open(&s, "gpt:layers=2,width=8,heads=1,context=8,vocab=16", 4);
        assert_ok(plm_advise(&s.job, &strategy, &s.device.head, 1, &advice));
        assert_non_null(treatment(advice, "a micro-batch that the plan chooses"));
        assert_int_equal(treatment(advice, "all of these, as the plan chooses") != NULL,
                         fixed == 2);
        plm_advice_destroy(advice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_most_16_micro_batches_are_priced_with_the_smallest_and_the_largest),
        cmocka_unit_test(a_head_is_cut_into_as_many_chunks_as_it_has_rows),
        cmocka_unit_test(of_equally_fast_strategies_the_smallest_is_chosen),
        cmocka_unit_test(no_mixture_of_two_rungs_that_fits_is_faster_than_the_choice),
        cmocka_unit_test(the_price_of_a_run_that_only_evaluates_is_its_plans_bound),
        cmocka_unit_test(treatments_are_named_where_they_need_less),
        cmocka_unit_test(a_treatment_fits_in_exactly_its_peak),
        cmocka_unit_test(all_treatments_together_are_more_than_one),
    };
    return run_test_group(tests);
}
