/* SPDX-License-Identifier: MIT */
/*
 * Plans: lifetimes with answers known by hand, placements checked from the trace alone, exactness
 * and order over budgets, and the figures that a GPT-2 must reach.
 */
#include "base/size.h"
#include "pass/pass.h"
#include "plan/plan.h"
#include "engine/fake_plan.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=16,vocab=40"

enum { PRODUCT_BYTES = 100000, OVERHEAD_BYTES = 4096 };

/* ---- lifetimes by hand --------------------------------------------------------------------- */

/* An evaluation of a network that is not worth running, on [1,4,8] fp32. */
typedef struct hand {
    plm_graph *graph;
    plm_tensor table, weight, tokens;
    plm_place places[16];
} hand;

static void hand_begin(hand *h)
{
    *h = (hand){0};
    plm_strategy strategy = plm_strategy_default();
    assert_ok(plm__graph_create(&strategy, &h->graph));
    plm__graph_begin(h->graph, PLM_PROGRAM_EVALUATE);
    h->table = plm_parameter(h->graph, "table", 2, (int64_t[]){10, 8}, plm_init_constant(0), true);
    h->weight = plm_parameter(h->graph, "w", 2, (int64_t[]){8, 8}, plm_init_constant(0), true);
    h->tokens = plm_input(h->graph, "tokens", 2, (int64_t[]){1, 4});
}

static const plm_place *hand_place(hand *h, plm_tensor tensor)
{
    return &h->places[plm__graph_tensor(h->graph, tensor)->storage];
}

static void hand_end(hand *h)
{
    assert_ok(plm__graph_status(h->graph));
    assert_true(h->graph->storages.count <= 16);
    plm__plan_lifetimes(h->graph, PLM_PROGRAM_EVALUATE, h->places);
}

static void assert_lives(hand *h, plm_tensor tensor, int32_t birth, int32_t death)
{
    assert_int_equal(hand_place(h, tensor)->birth, birth);
    assert_int_equal(hand_place(h, tensor)->death, death);
}

static void assert_takes(hand *h, plm_tensor tensor, plm_tensor from)
{
    int32_t wanted = from == PLM_TENSOR_NONE ? -1 : plm__graph_tensor(h->graph, from)->storage;
    assert_int_equal(hand_place(h, tensor)->takes, wanted);
}

static void a_storage_lives_from_its_first_write_to_its_last_reader(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table);              /* 0 */
    plm_tensor a = plm_linear(h.graph, e, h.weight, PLM_TENSOR_NONE);      /* 1 */
    plm_tensor b = plm_linear(h.graph, a, h.weight, PLM_TENSOR_NONE);      /* 2 */
    plm_tensor c = plm_linear(h.graph, e, h.weight, PLM_TENSOR_NONE);      /* 3 */
    plm_tensor sum = plm_add(h.graph, plm_add(h.graph, a, b), c);          /* 4, 5 */
    plm_tensor unread = plm_linear(h.graph, b, h.weight, PLM_TENSOR_NONE); /* 6 */
    hand_end(&h);
    assert_lives(&h, h.tokens, 0, 0);
    assert_lives(&h, e, 0, 3);
    assert_lives(&h, a, 1, 4);
    assert_lives(&h, b, 2, 6);
    assert_lives(&h, c, 3, 5);
    assert_lives(&h, sum, 5, 5);
    assert_lives(&h, unread, 6, 6);
    plm__graph_destroy(h.graph);
}

static void an_output_takes_the_place_of_a_dying_input(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table);         /* 0 */
    plm_tensor a = plm_gelu(h.graph, e);                              /* 1: e dies */
    plm_tensor b = plm_linear(h.graph, a, h.weight, PLM_TENSOR_NONE); /* 2 */
    plm_tensor sum = plm_add(h.graph, a, b);  /* 3: both die, the first is taken */
    plm_tensor last = plm_gelu(h.graph, sum); /* 4 */
    hand_end(&h);
    assert_takes(&h, e, PLM_TENSOR_NONE);
    assert_takes(&h, a, e);
    assert_takes(&h, b, PLM_TENSOR_NONE);
    assert_takes(&h, sum, a);
    assert_takes(&h, last, sum);
    int32_t home = plm__graph_tensor(h.graph, e)->storage;
    assert_int_equal(hand_place(&h, last)->home, home);
    assert_int_equal(hand_place(&h, e)->until, 4);
    assert_int_equal(hand_place(&h, b)->until, 3);
    plm__graph_destroy(h.graph);
}

static void an_input_that_is_needed_again_is_not_overwritten(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table);
    plm_tensor a = plm_gelu(h.graph, e);   /* e is read later */
    plm_tensor b = plm_add(h.graph, e, e); /* e dies, but is read twice by this operation */
    plm_tensor c = plm_add(h.graph, b, a);
    plm_tensor d = plm_linear(h.graph, c, h.weight, PLM_TENSOR_NONE); /* a product may not */
    hand_end(&h);
    assert_takes(&h, a, PLM_TENSOR_NONE);
    assert_takes(&h, b, PLM_TENSOR_NONE);
    assert_takes(&h, c, b);
    assert_takes(&h, d, PLM_TENSOR_NONE);
    plm__graph_destroy(h.graph);
}

static void what_the_host_reads_lives_to_the_end_and_is_not_overwritten(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table); /* 0 */
    plm_tensor a = plm_gelu(h.graph, e);                      /* 1 */
    plm_output(h.graph, a);
    plm_tensor b = plm_linear(h.graph, a, h.weight, PLM_TENSOR_NONE); /* 2 */
    plm_tensor last = plm_add(h.graph, a, b);                         /* 3: the last operation */
    hand_end(&h);
    assert_lives(&h, a, 1, 3);
    assert_takes(&h, last, b);
    plm__graph_destroy(h.graph);
}

static void an_input_that_the_host_reads_lives_to_the_end(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table);         /* 0 */
    plm_tensor a = plm_linear(h.graph, e, h.weight, PLM_TENSOR_NONE); /* 1 */
    plm_output(h.graph, h.tokens);
    hand_end(&h);
    assert_lives(&h, h.tokens, 0, 1);
    assert_lives(&h, a, 1, 1);
    plm__graph_destroy(h.graph);
}

static void what_the_host_reads_is_not_let_go_when_it_is_written_in_chunks(void **state)
{
    (void)state;
    hand h;
    hand_begin(&h);
    h.graph->strategy.mlp_chunks = 2;
    h.graph->strategy.recompute = PLM_RECOMPUTE_BLOCK;
    plm_tensor e = plm_embedding(h.graph, h.tokens, h.table); /* 0 */
    plm_block(h.graph, 0);
    plm_tensor wide = plm_gelu(h.graph, plm_linear(h.graph, e, h.weight, PLM_TENSOR_NONE));
    plm_tensor a = plm_linear(h.graph, wide, h.weight, PLM_TENSOR_NONE); /* 3 and 6 */
    plm_output(h.graph, a);
    plm_tensor b = plm_linear(h.graph, e, h.weight, PLM_TENSOR_NONE); /* 7 */
    assert_ok(plm__pass_chunk_mlp(h.graph));
    hand_end(&h);
    assert_lives(&h, a, 3, 7);
    assert_lives(&h, b, 7, 7);
    plm__graph_destroy(h.graph);
}

/* ---- placements, from the trace ------------------------------------------------------------ */

typedef struct span {
    uint64_t begin, end;
    int64_t block;
} span;

/* The live blocks of a walk over a trace. */
typedef struct walk {
    span *live;
    int64_t count;
    size_t bytes, peak;
} walk;

static void walk_birth(walk *w, const plm_event *event, size_t arena)
{
    span born = {event->address, event->address + event->bytes_taken, event->block};
    assert_int_equal(born.begin % PLM_GRANULE_BYTES, 0);
    assert_true(born.end <= arena);
    for (int64_t i = 0; i < w->count; i++)
        if (born.begin < w->live[i].end && w->live[i].begin < born.end)
            fail_msg("blocks %lld and %lld share bytes", (long long)w->live[i].block,
                     (long long)born.block);
    w->live[w->count++] = born;
    w->bytes += event->bytes_taken;
    w->peak = w->bytes > w->peak ? w->bytes : w->peak;
}

static void walk_death(walk *w, const plm_event *event)
{
    for (int64_t i = 0; i < w->count; i++) {
        if (w->live[i].block != event->block)
            continue;
        w->live[i] = w->live[--w->count];
        w->bytes -= event->bytes_taken;
        return;
    }
    fail_msg("block %lld died without being alive", (long long)event->block);
}

/* Nothing that is live shares a byte, in any program; the peak is the lower bound. Knows nothing of
 * how places are found. */
static void check_placement(const plm_plan *plan)
{
    plm_trace *trace = NULL;
    int64_t count;
    assert_ok(plm_plan_trace(plan, &trace));
    const plm_event *events = plm_trace_events(trace, &count);
    plm_plan_summary summary = plm_plan_summarize(plan);
    walk w = {.live = calloc((size_t)count + 1, sizeof *w.live)};
    for (int64_t i = 0; i < count; i++) {
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            walk_birth(&w, &events[i], summary.arena_bytes);
        else if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            walk_death(&w, &events[i]);
    }
    assert_int_equal(w.peak, summary.lower_bound_bytes);
    assert_int_equal(w.bytes, summary.persistent_bytes); /* nothing else outlives the schedule */
    free(w.live);
    plm_trace_destroy(trace);
}

static void live_storages_share_no_byte_in_any_program(void **state)
{
    (void)state;
    static const char *const models[] = {SMALL, SMALL ",dropout=0.1",
                                         "gpt:layers=7,width=24,heads=3,context=33,vocab=300",
                                         "gpt:layers=1,width=8,heads=1,context=1,vocab=2"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        for (int form = 0; form < 2; form++) {
            for (int64_t micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
                fake_device device = fake_device_make(m % 2 ? PRODUCT_BYTES : 0, OVERHEAD_BYTES);
                plm_plan *plan =
                    plan_of(models[m], 4, micro_batch, (plm_attention_form)form, &device);
                check_placement(plan);
                plm_plan_destroy(plan);
            }
        }
    }
}

static void the_figures_of_a_plan_add_up(void **state)
{
    (void)state;
    fake_device device = fake_device_make(PRODUCT_BYTES, OVERHEAD_BYTES);
    plm_plan *plan = plan_of(SMALL, 4, 2, PLM_ATTENTION_PLAIN, &device);
    plm_plan_summary s = plm_plan_summarize(plan);
    assert_int_equal(s.batch, 4);
    assert_int_equal(s.sequence, 16);
    assert_int_equal(s.strategy.micro_batch, 2);
    assert_int_equal(s.arena_bytes, s.persistent_bytes + s.transient_bytes);
    assert_int_equal(s.lower_bound_bytes, s.persistent_bytes + s.transient_bound_bytes);
    assert_int_equal(s.peak_bytes, s.arena_bytes + OVERHEAD_BYTES);
    assert_true(s.transient_bytes >= s.transient_bound_bytes);
    plm_plan_destroy(plan);
}

/* Copies what the trace tells of the persistent region; returns how many blocks. */
static int64_t persistent_blocks(const plm_plan *plan, span *blocks, int64_t most)
{
    plm_trace *trace = NULL;
    int64_t count, found = 0;
    assert_ok(plm_plan_trace(plan, &trace));
    const plm_event *events = plm_trace_events(trace, &count);
    size_t end = plm_plan_summarize(plan).persistent_bytes;
    for (int64_t i = 1; i < count && events[i].kind != PLM_EVENT_MARK; i++) {
        assert_true(found < most);
        blocks[found++] = (span){events[i].address, events[i].address + events[i].bytes_taken, 0};
        assert_true(blocks[found - 1].end <= end);
    }
    plm_trace_destroy(trace);
    return found;
}

static void the_persistent_region_does_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    enum { MOST = 256 };
    span first[MOST], other[MOST];
    int64_t count = 0;
    for (int64_t micro_batch = 1; micro_batch <= 8; micro_batch *= 2) {
        for (int form = 0; form < 2; form++) {
            fake_device device = fake_device_make(PRODUCT_BYTES, 0);
            plm_plan *plan = plan_of(SMALL, 8, micro_batch, (plm_attention_form)form, &device);
            int64_t found = persistent_blocks(plan, count ? other : first, MOST);
            if (count)
                assert_memory_equal(other, first, (size_t)count * sizeof *first);
            count = count ? count : found;
            assert_int_equal(found, count);
            plm_plan_destroy(plan);
        }
    }
    /* a step record, and 28 parameters with gradient and two moments */
    assert_int_equal(count, 1 + 4 * (2 * 12 + 4));
}

/* ---- packing over a grid ------------------------------------------------------------------- */

static void check_packed(const char *description, int64_t batch, plm_attention_form form,
                         size_t product_bytes, int *above)
{
    fake_device device = fake_device_make(product_bytes, 0);
    plm_plan *plan = plan_of(description, batch, batch, form, &device);
    plm_plan_summary s = plm_plan_summarize(plan);
    plm_plan_destroy(plan);
    if (s.transient_bytes == s.transient_bound_bytes)
        return;
    ++*above;
    double over = 100 * ((double)s.transient_bytes / (double)s.transient_bound_bytes - 1);
    print_message("%s, batch %lld, %s attention, workspaces of %zu: %.4f %% above the bound\n",
                  description, (long long)batch, plm_attention_text(form), product_bytes, over);
    assert_true(over <= 1);
}

static void the_transient_region_is_its_lower_bound_on_a_grid(void **state)
{
    (void)state;
    static const int layers[] = {2, 3, 4, 6, 12, 24, 48, 96};
    static const int64_t batches[] = {1, 2, 5, 8, 32};
    static const char *const shapes[] = {"width=768,heads=12,context=1024,vocab=50257",
                                         "width=256,heads=4,context=256,vocab=256,dropout=0.1"};
    int above = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                for (int form = 0; form < 2; form++) {
                    char description[128];
                    snprintf(description, sizeof description, "gpt:layers=%d,%s", layers[l],
                             shapes[s]);
                    check_packed(description, batches[b], (plm_attention_form)form,
                                 b % 2 ? 1500000 : 0, &above);
                }
    print_message("%d of 160 plans above their bound\n", above);
}

/* ---- budgets ------------------------------------------------------------------------------- */

typedef struct shop {
    plm_model model;
    plm_job job;
    fake_device device;
} shop;

static void shop_open(shop *s, const char *description, int64_t batch)
{
    assert_ok(plm_model_parse(description, &s->model));
    s->job = job_of(&s->model, batch, s->model.context);
    s->device = fake_device_make(PRODUCT_BYTES, OVERHEAD_BYTES);
}

/* The peak of the plan for a budget, 0 when it is refused. */
static size_t peak_for(shop *s, int64_t micro_batch, size_t budget, size_t *smallest)
{
    plm_plan *plan = NULL;
    plm_strategy strategy = strategy_of(micro_batch, PLM_ATTENTION_FUSED);
    plm_status status =
        plm_plan_for_budget(&s->job, &strategy, &s->device.head, budget, smallest, &plan);
    if (status == PLM_ERROR_BUDGET) {
        assert_null(plan);
        return 0;
    }
    assert_ok(status);
    size_t peak = plm_plan_summarize(plan).peak_bytes;
    plm_plan_destroy(plan);
    return peak;
}

static void exactly_the_peak_suffices_and_a_byte_less_does_not(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, SMALL, 8);
    size_t smallest = 0;
    size_t peak = peak_for(&s, 4, SIZE_MAX, &smallest);
    assert_int_equal(smallest, peak);
    assert_int_equal(peak_for(&s, 4, peak, NULL), peak);
    assert_int_equal(peak_for(&s, 4, peak - 1, NULL), 0);
}

static void a_smaller_budget_never_gives_a_larger_peak(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, SMALL, 12);
    size_t smallest = 0, largest = peak_for(&s, 0, SIZE_MAX, &smallest), before = 0;
    assert_int_equal(largest, peak_for(&s, 12, SIZE_MAX, NULL));
    int different = 0;
    for (size_t budget = smallest - 64; budget <= largest; budget += (largest - smallest) / 97) {
        size_t peak = peak_for(&s, 0, budget, NULL);
        assert_true(peak <= budget);
        assert_true(peak >= before);
        assert_true((peak == 0) == (budget < smallest));
        different += peak != before;
        before = peak;
    }
    assert_in_range(different, 4, 6); /* the divisors of 12 */
}

static void a_refusal_names_the_smallest_budget_that_would_do(void **state)
{
    (void)state;
    shop s;
    plm_error error;
    char wanted[64];
    shop_open(&s, SMALL, 8);
    size_t smallest = 0;
    assert_int_equal(peak_for(&s, 0, 1000, &smallest), 0);
    plm_error_get(&error);
    snprintf(wanted, sizeof wanted, "(%zu bytes), with a micro-batch of 1", smallest);
    assert_non_null(strstr(error.message, wanted));
    assert_int_equal(error.oom.budget_bytes, 1000);
    assert_int_equal(error.oom.asked_bytes, smallest);
    assert_int_equal(peak_for(&s, 0, smallest, NULL), smallest);
}

static void wrong_jobs_are_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, sequence, micro_batch;
        plm_status status;
    } cases[] = {
        {0, 16, 1, PLM_ERROR_ARGUMENT},
        {-8, 16, 1, PLM_ERROR_ARGUMENT},
        {8, 0, 1, PLM_ERROR_ARGUMENT},
        {8, 17, 1, PLM_ERROR_ARGUMENT}, /* longer than the table */
        {8, 16, 3, PLM_ERROR_ARGUMENT},
        {8, 16, 0, PLM_ERROR_ARGUMENT},
        {8, 16, -1, PLM_ERROR_ARGUMENT},
        {PLM_BATCH_MAX + 1, 16, 1, PLM_ERROR_ARGUMENT},
        {8, (int64_t)PLM_SEQUENCE_MAX + 1, 1, PLM_ERROR_ARGUMENT},
    };
    shop s;
    shop_open(&s, SMALL, 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_plan *plan = NULL;
        plm_strategy strategy = strategy_of(cases[i].micro_batch, PLM_ATTENTION_FUSED);
        plm_job job = job_of(&s.model, cases[i].batch, cases[i].sequence);
        assert_int_equal(plm_plan_create(&job, &strategy, &s.device.head, &plan), cases[i].status);
        assert_null(plan);
    }
}

/* What a network of one's own gets wrong. */
typedef enum fault { NO_FAULT, OTHER_INPUT, TOKENS_TWICE, LONG_TOKENS, NO_LOSS, NO_OUTPUT } fault;

static void build_with_fault(plm_graph *g, const void *config, plm_program program, int64_t batch,
                             int64_t sequence)
{
    const fault wrong = *(const fault *)config;
    bool generates = program == PLM_PROGRAM_GENERATE;
    int64_t shape[2] = {batch, sequence + (wrong == LONG_TOKENS)};
    plm_tensor tokens = plm_input(g, "tokens", 2, shape);
    if (wrong == OTHER_INPUT || wrong == TOKENS_TWICE)
        tokens = plm_input(g, wrong == OTHER_INPUT ? "ids" : "tokens", 2, shape);
    plm_tensor table = plm_parameter(g, "table", 2, (int64_t[]){10, 8}, plm_init_constant(0), true);
    plm_tensor x = plm_embedding(g, tokens, table);
    if (!generates && (wrong != NO_LOSS || program != PLM_PROGRAM_EVALUATE))
        plm_cross_entropy(g, plm_linear(g, x, table, PLM_TENSOR_NONE),
                          plm_input(g, "targets", 2, shape));
    else if (generates && wrong != NO_OUTPUT)
        plm_output(g, plm_linear(g, plm_select(g, x), table, PLM_TENSOR_NONE));
}

static void a_network_that_breaks_its_promise_is_refused(void **state)
{
    (void)state;
    static const char *const said[] = {
        [OTHER_INPUT] = "the input 'ids'",       [TOKENS_TWICE] = "another 'tokens'",
        [LONG_TOKENS] = "tokens as [4,6] int32", [NO_LOSS] = "evaluate: the network ends without",
        [NO_OUTPUT] = "one plm_output",
    };
    fake_device device = fake_device_make(PRODUCT_BYTES, OVERHEAD_BYTES);
    plm_strategy strategy = strategy_of(4, PLM_ATTENTION_FUSED);
    for (fault wrong = NO_FAULT; wrong <= NO_OUTPUT; wrong++) {
        plm_plan *plan = NULL;
        plm_error error;
        plm_job job = {.network = {build_with_fault, &wrong},
                       .batch = 8,
                       .sequence = 6,
                       .trains = true,
                       .evaluates = true,
                       .generates = true};
        plm_status status = plm_plan_create(&job, &strategy, &device.head, &plan);
        assert_int_equal(status, wrong ? PLM_ERROR_ARGUMENT : PLM_OK);
        plm_error_get(&error);
        if (wrong && !strstr(error.message, said[wrong]))
            fail_msg("'%s' is not in: %s", said[wrong], error.message);
        plm_plan_destroy(plan);
    }
}

/* Strategies are plain structures that anybody fills. */
static void a_strategy_out_of_range_is_refused(void **state)
{
    (void)state;
    fake_device device = fake_device_make(PRODUCT_BYTES, OVERHEAD_BYTES);
    plm_model model;
    plm_plan *plan = NULL;
    assert_ok(plm_model_parse(SMALL, &model));
    plm_job job = job_of(&model, 8, 16);
    plm_strategy strategy = strategy_of(4, (plm_attention_form)7);
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_ARGUMENT);
    strategy = strategy_of(4, PLM_ATTENTION_FUSED);
    strategy.recompute_count = PLM_BLOCKS_MAX + 1;
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_ARGUMENT);
    strategy.recompute_count = 0;
    strategy.precision = PLM_DTYPE_I32;
    assert_int_equal(plm_plan_create(&job, &strategy, &device.head, &plan), PLM_ERROR_ARGUMENT);
    assert_null(plan);
}

static void types_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    const struct {
        plm_dtype precision, gradient;
        plm_update_time update;
        int64_t micro_batch, chunks;
        bool good;
    } cases[] = {
        {PLM_DTYPE_BF16, PLM_DTYPE_F32, PLM_UPDATE_LATE, 4, 2, true},
        {PLM_DTYPE_F16, PLM_DTYPE_F32, PLM_UPDATE_LATE, 4, 2, true},
        {PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_LATE, 8, 1, true},
        {PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_LATE, 4, 1, false}, /* gradients add up */
        {PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_LATE, 8, 2, false},
        {PLM_DTYPE_F32, PLM_DTYPE_BF16, PLM_UPDATE_LATE, 8, 1, false},
        {PLM_DTYPE_F16, PLM_DTYPE_F16, PLM_UPDATE_LATE, 8, 1, false},
        {PLM_DTYPE_BF16, PLM_DTYPE_I32, PLM_UPDATE_LATE, 8, 1, false},
        {PLM_DTYPE_F32, PLM_DTYPE_F32, PLM_UPDATE_EARLY, 8, 2, true},
        {PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_EARLY, 8, 1, true},
        {PLM_DTYPE_BF16, PLM_DTYPE_F32, PLM_UPDATE_EARLY, 4, 1, false},
        {PLM_DTYPE_F16, PLM_DTYPE_F32, PLM_UPDATE_EARLY, 8, 1, false}, /* no loss scale */
        {PLM_DTYPE_F32, PLM_DTYPE_F32, (plm_update_time)7, 8, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shop s;
        plm_plan *plan = NULL;
        shop_open(&s, SMALL, 8);
        plm_strategy strategy = strategy_of(cases[i].micro_batch, PLM_ATTENTION_FUSED);
        strategy.precision = cases[i].precision;
        strategy.gradient = cases[i].gradient;
        strategy.update = cases[i].update;
        strategy.head_chunks = cases[i].chunks;
        plm_status status = plm_plan_create(&s.job, &strategy, &s.device.head, &plan);
        if (status != (cases[i].good ? PLM_OK : PLM_ERROR_ARGUMENT))
            fail_msg("case %zu: %s", i, plm_status_name(status));
        plm_plan_destroy(plan);
    }
}

/* gradient + optimizer + weights + masters: 16 bytes a parameter in fp32; in 16 bits 18, 16 with
 * bf16 gradients, less 4 or 2 where no gradient is kept. */
static void states_take_what_their_types_say(void **state)
{
    (void)state;
    const struct {
        plm_dtype precision, gradient;
        plm_update_time update;
        size_t bytes;
    } cases[] = {
        {PLM_DTYPE_F32, PLM_DTYPE_F32, PLM_UPDATE_LATE, 16},
        {PLM_DTYPE_BF16, PLM_DTYPE_F32, PLM_UPDATE_LATE, 18},
        {PLM_DTYPE_F16, PLM_DTYPE_F32, PLM_UPDATE_LATE, 18},
        {PLM_DTYPE_BF16, PLM_DTYPE_BF16, PLM_UPDATE_LATE, 16},
        {PLM_DTYPE_BF16, PLM_DTYPE_F32, PLM_UPDATE_EARLY, 14},
        {PLM_DTYPE_F32, PLM_DTYPE_F32, PLM_UPDATE_EARLY, 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shop s;
        shop_open(&s, "gpt:layers=2,width=64,heads=2,context=64,vocab=128", 4);
        plm_strategy strategy = strategy_of(4, PLM_ATTENTION_FUSED);
        strategy.precision = cases[i].precision;
        strategy.gradient = cases[i].gradient;
        strategy.update = cases[i].update;
        plm_plan *plan = NULL;
        assert_ok(plm_plan_create(&s.job, &strategy, &s.device.head, &plan));
        plm_plan_summary summary = plm_plan_summarize(plan);
        /* Every extent is a multiple of a granule in any type: no padding. */
        size_t step = plm__granules(sizeof(plm_step_record));
        assert_int_equal(summary.persistent_bytes - step,
                         (size_t)summary.parameter_count * cases[i].bytes);
        plm_plan_destroy(plan);
    }
}

static void sizes_beyond_counting_are_an_overflow(void **state)
{
    (void)state;
    shop s;
    plm_plan *plan = NULL;
    shop_open(&s, "gpt:layers=2,width=65536,heads=1,context=268435456,vocab=268435456",
              PLM_BATCH_MAX);
    plm_strategy strategy = strategy_of(PLM_BATCH_MAX, PLM_ATTENTION_PLAIN);
    assert_int_equal(plm_plan_create(&s.job, &strategy, &s.device.head, &plan), PLM_ERROR_OVERFLOW);
    assert_null(plan);
}

/* ---- failures ------------------------------------------------------------------------------ */

static plm_status plan_and_trace(void *context)
{
    shop *s = context;
    plm_plan *plan = NULL;
    plm_trace *trace = NULL;
    plm_strategy strategy = strategy_of(1, PLM_ATTENTION_PLAIN);
    plm_status status = plm_plan_create(&s->job, &strategy, &s->device.head, &plan);
    if (status == PLM_OK)
        status = plm_plan_trace(plan, &trace);
    plm_trace_destroy(trace);
    plm_plan_destroy(plan);
    return status;
}

static plm_status search(void *context)
{
    shop *s = context;
    plm_plan *plan = NULL;
    plm_strategy strategy = strategy_of(0, PLM_ATTENTION_FUSED);
    size_t smallest;
    plm_status status =
        plm_plan_for_budget(&s->job, &strategy, &s->device.head, SIZE_MAX, &smallest, &plan);
    plm_plan_destroy(plan);
    return status;
}

static void every_allocation_of_a_plan_may_fail(void **state)
{
    (void)state;
    shop s;
    shop_open(&s, "gpt:layers=1,width=8,heads=1,context=4,vocab=8,dropout=0.1", 2);
    sweep_failures(plan_and_trace, &s);
    sweep_failures(search, &s);
}

/* ---- figures ------------------------------------------------------------------------------- */

static void the_presets_have_their_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t parameters;
    } cases[] = {{"gpt2", 124439808},     {"gpt2-medium", 354823168}, {"gpt2-large", 774030080},
                 {"gpt2-xl", 1557611200}, {"bert-base", 109514298},   {"bert-large", 335174458}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_device device = fake_device_make(0, 0);
        plm_plan *plan = plan_of(cases[i].name, 1, 1, PLM_ATTENTION_FUSED, &device);
        assert_int_equal(plm_plan_summarize(plan).parameter_count, cases[i].parameters);
        plm_plan_destroy(plan);
    }
}

/* 1.03 (64 C L + 4 V + 4 H L) bytes a token. */
static void the_transient_peak_of_gpt2_is_lean(void **state)
{
    (void)state;
    const double token = 64.0 * 768 * 12 + 4.0 * 50257 + 4.0 * 12 * 12;
    for (int64_t micro_batch = 1; micro_batch <= 8; micro_batch *= 8) {
        fake_device device = fake_device_make(1 << 20, 0);
        plm_plan *plan = plan_of("gpt2", 8, micro_batch, PLM_ATTENTION_FUSED, &device);
        double bytes = (double)plm_plan_summarize(plan).transient_bytes;
        double ratio = bytes / (double)(1024 * micro_batch) / token;
        print_message("micro-batch %lld: %.4f of the formula\n", (long long)micro_batch, ratio);
        assert_true(ratio <= 1.03);
        plm_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_storage_lives_from_its_first_write_to_its_last_reader),
        cmocka_unit_test(an_output_takes_the_place_of_a_dying_input),
        cmocka_unit_test(an_input_that_is_needed_again_is_not_overwritten),
        cmocka_unit_test(what_the_host_reads_lives_to_the_end_and_is_not_overwritten),
        cmocka_unit_test(an_input_that_the_host_reads_lives_to_the_end),
        cmocka_unit_test(what_the_host_reads_is_not_let_go_when_it_is_written_in_chunks),
        cmocka_unit_test(live_storages_share_no_byte_in_any_program),
        cmocka_unit_test(the_figures_of_a_plan_add_up),
        cmocka_unit_test(the_persistent_region_does_not_depend_on_the_micro_batch),
        cmocka_unit_test(the_transient_region_is_its_lower_bound_on_a_grid),
        cmocka_unit_test(exactly_the_peak_suffices_and_a_byte_less_does_not),
        cmocka_unit_test(a_smaller_budget_never_gives_a_larger_peak),
        cmocka_unit_test(a_refusal_names_the_smallest_budget_that_would_do),
        cmocka_unit_test(wrong_jobs_are_refused),
        cmocka_unit_test(a_network_that_breaks_its_promise_is_refused),
        cmocka_unit_test(a_strategy_out_of_range_is_refused),
        cmocka_unit_test(types_that_do_not_go_together_are_refused),
        cmocka_unit_test(states_take_what_their_types_say),
        cmocka_unit_test(sizes_beyond_counting_are_an_overflow),
        cmocka_unit_test(every_allocation_of_a_plan_may_fail),
        cmocka_unit_test(the_presets_have_their_parameters),
        cmocka_unit_test(the_transient_peak_of_gpt2_is_lean),
    };
    return run_test_group(tests);
}
