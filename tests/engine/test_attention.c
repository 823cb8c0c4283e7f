/* SPDX-License-Identifier: MIT */
/*
 * Networks whose attention has fewer heads of keys and values than of queries, and heads of a size
 * of their own, built by the public builder and trained on the CPU: gradients against differences
 * of the loss and against whole heads, every form and type, recompute, micro-batches, plans.
 */
#include "engine/small_run.h"
#include "graph/op_cost.h"
#include "plan/plan.h"

enum { WIDTH = 24, VOCAB = 19, LENGTH = 13, BATCH = 4, BLOCKS = 2, WIDE = 2 * WIDTH };

typedef struct heads {
    int32_t heads, key_heads;
    int64_t size;
    bool causal;
} heads;

static const heads kinds[] = {
    {4, 2, 5, true}, {4, 1, 12, true}, {6, 3, 4, false}, {3, 1, 7, false}};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int64_t packed_of(const heads *h)
{
    return (h->heads + 2 * h->key_heads) * h->size;
}

static plm_tensor product(plm_graph *g, const char *name, plm_tensor x, int64_t out, int64_t in)
{
    plm_tensor weight =
        plm_parameter(g, name, 2, (int64_t[]){out, in}, plm_init_normal(0.3f), true);
    return plm_linear(g, x, weight, PLM_TENSOR_NONE);
}

static plm_tensor normalised(plm_graph *g, const char *name, plm_tensor x)
{
    char full[32];
    const int64_t width = WIDTH;
    snprintf(full, sizeof full, "%s.weight", name);
    plm_tensor weight = plm_parameter(g, full, 1, &width, plm_init_constant(1), false);
    snprintf(full, sizeof full, "%s.bias", name);
    plm_tensor bias = plm_parameter(g, full, 1, &width, plm_init_constant(0), false);
    return plm_layer_norm(g, x, weight, bias, 1e-5f);
}

/* A GPT; HD is not its width. */
static void build(plm_graph *g, const void *config, plm_program program, int64_t batch, int64_t t)
{
    const heads *h = config;
    (void)program;
    plm_tensor tokens = plm_input(g, "tokens", 2, (int64_t[]){batch, t});
    plm_tensor targets = plm_input(g, "targets", 2, (int64_t[]){batch, t});
    plm_tensor letters =
        plm_parameter(g, "letters", 2, (int64_t[]){VOCAB, WIDTH}, plm_init_normal(0.5f), true);
    plm_tensor places =
        plm_parameter(g, "places", 2, (int64_t[]){LENGTH, WIDTH}, plm_init_normal(0.5f), true);
    plm_tensor x = plm_position(g, plm_embedding(g, tokens, letters), places);
    for (int32_t i = 0; i < BLOCKS; i++) {
        plm_block(g, i);
        plm_tensor qkv = product(g, "qkv", normalised(g, "ln1", x), packed_of(h), WIDTH);
        plm_tensor seen = plm_attention(g, qkv, h->heads, h->key_heads, h->causal);
        x = plm_add(g, x, product(g, "mix", seen, WIDTH, h->heads * h->size));
        plm_tensor bent = plm_gelu(g, product(g, "up", normalised(g, "ln2", x), WIDE, WIDTH));
        x = plm_add(g, x, product(g, "down", bent, WIDTH, WIDE));
    }
    plm_layer(g, "head");
    plm_cross_entropy(g, plm_linear(g, x, letters, PLM_TENSOR_NONE), targets);
}

typedef struct choice {
    plm_attention_form form;
    plm_dtype precision;
    int64_t micro_batch;
    const char *recompute; /* NULL: none */
    int64_t mlp_chunks;
} choice;

static const choice fused = {PLM_ATTENTION_FUSED, PLM_DTYPE_F32, BATCH, NULL, 1};

/* What of a window is compared, of the first block. */
typedef struct outcome {
    double loss;
    float qkv[WIDTH * 144], mix[WIDTH * 64], up[WIDTH * WIDE];
} outcome;

typedef struct net {
    plm_device *device;
    plm_plan *plan;
    plm_session *session;
    int64_t qkv, mix; /* elements of those weights */
} net;

static void net_open(net *n, const heads *h, const choice *c)
{
    const plm_job job = {{build, h}, BATCH, LENGTH, .trains = true, .evaluates = true};
    plm_strategy strategy = plm_strategy_default();
    strategy.attention = c->form;
    strategy.precision = c->precision;
    strategy.micro_batch = c->micro_batch;
    strategy.mlp_chunks = c->mlp_chunks;
    if (c->recompute)
        assert_ok(plm_strategy_recompute_parse(&strategy, c->recompute, &strategy.recompute));
    *n = (net){.qkv = packed_of(h) * WIDTH, .mix = h->heads * h->size * WIDTH};
    assert_true((size_t)n->qkv <= sizeof((outcome *)0)->qkv / sizeof(float));
    assert_true((size_t)n->mix <= sizeof((outcome *)0)->mix / sizeof(float));
    assert_ok(plm_device_open("cpu", 2, 0, &n->device));
    assert_ok(plm_plan_create(&job, &strategy, n->device, &n->plan));
    assert_ok(plm_session_create(n->plan, n->device, 5, &n->session));
}

static void net_close(net *n)
{
    plm_session_destroy(n->session);
    plm_plan_destroy(n->plan);
    plm_device_destroy(n->device);
}

/* The gradients of one window at the first values; nothing is learnt. */
static void net_step(net *n, outcome *seen)
{
    small_window window;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    hyper.learning_rate = 0;
    hyper.clip_norm = 0;
    small_window_fill(&window, BATCH * LENGTH, VOCAB, 1);
    do { /* until the loss scale of fp16 is small enough */
        assert_ok(
            plm_session_step(n->session, 0, &hyper, BATCH, window.tokens, window.targets, &result));
    } while (result.skipped && result.loss_scale > 64);
    assert_false(result.skipped);
    const plm_parameter_part part = PLM_PART_GRADIENT;
    seen->loss = result.loss;
    assert_ok(plm_session_read(n->session, "block.0.qkv", part, n->qkv, seen->qkv));
    assert_ok(plm_session_read(n->session, "block.0.mix", part, n->mix, seen->mix));
    assert_ok(plm_session_read(n->session, "block.0.up", part, WIDTH * WIDE, seen->up));
    for (int64_t i = 0; i < n->qkv; i++) /* of fp16 */
        seen->qkv[i] /= result.loss_scale;
    for (int64_t i = 0; i < n->mix; i++)
        seen->mix[i] /= result.loss_scale;
    for (int64_t i = 0; i < WIDTH * WIDE; i++)
        seen->up[i] /= result.loss_scale;
}

static void run(const heads *h, const choice *c, outcome *seen)
{
    net n;
    plm_session_measure measure;
    memset(seen, 0, sizeof *seen);
    net_open(&n, h, c);
    net_step(&n, seen);
    assert_ok(plm_session_measure_memory(n.session, &measure));
    assert_int_equal(measure.peak_bytes, plm_plan_summarize(n.plan).peak_bytes);
    net_close(&n);
}

/* |a - b| / |b| */
static double apart(const float *a, const float *b, int64_t count)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        off += d * d;
        size += (double)b[i] * (double)b[i];
    }
    assert_true(size > 1e-12); /* attention matters here */
    return sqrt(off / size);
}

static void assert_near(const outcome *a, const outcome *b, double tolerance)
{
    double loss = fabs(a->loss - b->loss) / b->loss, qkv = apart(a->qkv, b->qkv, WIDTH * 144);
    double mix = apart(a->mix, b->mix, WIDTH * 64), up = apart(a->up, b->up, WIDTH * WIDE);
    if (!(loss <= tolerance && qkv <= tolerance && mix <= tolerance && up <= tolerance))
        fail_msg("loss off by %g, gradients of qkv by %g, of mix by %g, of up by %g: wanted %g",
                 loss, qkv, mix, up, tolerance);
}

static void every_form_type_and_micro_batch_gives_the_gradients_of_the_fused_form(void **state)
{
    (void)state;
    static const struct {
        choice c;
        double tolerance;
    } others[] = {
        {{PLM_ATTENTION_PLAIN, PLM_DTYPE_F32, BATCH, NULL, 1}, 1e-5},
        {{PLM_ATTENTION_FUSED, PLM_DTYPE_F32, 1, NULL, 1}, 1e-5},
        {{PLM_ATTENTION_PLAIN, PLM_DTYPE_F32, 2, "mlp+attention", 4}, 1e-5},
        {{PLM_ATTENTION_FUSED, PLM_DTYPE_BF16, BATCH, NULL, 1}, 0.06},
        {{PLM_ATTENTION_PLAIN, PLM_DTYPE_BF16, BATCH, NULL, 1}, 0.06},
        {{PLM_ATTENTION_FUSED, PLM_DTYPE_F16, BATCH, NULL, 1}, 0.005},
        {{PLM_ATTENTION_PLAIN, PLM_DTYPE_F16, BATCH, NULL, 1}, 0.005},
    };
    for (int kind = 0; kind < KINDS; kind++) {
        outcome wanted, found;
        run(&kinds[kind], &fused, &wanted);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            run(&kinds[kind], &others[i].c, &found);
            assert_near(&found, &wanted, others[i].tolerance);
        }
    }
}

static void recompute_changes_no_bit(void **state)
{
    (void)state;
    static const char *const rungs[] = {"attention", "block", "qkv+attention"};
    for (int kind = 0; kind < KINDS; kind++)
        for (int form = 0; form <= PLM_ATTENTION_PLAIN; form++) {
            outcome wanted, found;
            choice c = fused;
            c.form = (plm_attention_form)form;
            run(&kinds[kind], &c, &wanted);
            for (int rung = 0; rung < 3; rung++) {
                c.recompute = rungs[rung];
                run(&kinds[kind], &c, &found);
                assert_memory_equal(&found, &wanted, sizeof wanted);
            }
        }
}

static double loss_of(net *n)
{
    small_window window;
    double sum;
    int64_t counted;
    small_window_fill(&window, BATCH * LENGTH, VOCAB, 1);
    assert_ok(
        plm_session_evaluate(n->session, BATCH, window.tokens, window.targets, &sum, &counted));
    return sum / (double)counted;
}

/* Differences of the loss along the gradient of one weight, against its length. */
static void check_slope(net *n, const char *name, int64_t count, const float *gradient)
{
    static float first[WIDTH * 144], moved[WIDTH * 144];
    const double step = 2e-2;
    double length = 0, side[2];
    for (int64_t i = 0; i < count; i++)
        length += (double)gradient[i] * (double)gradient[i];
    length = sqrt(length);
    assert_ok(plm_session_read(n->session, name, PLM_PART_VALUE, count, first));
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < count; i++)
            moved[i] = first[i] + (float)((s ? -step : step) * (double)gradient[i] / length);
        assert_ok(plm_session_write(n->session, name, PLM_PART_VALUE, count, moved));
        side[s] = loss_of(n);
    }
    assert_ok(plm_session_write(n->session, name, PLM_PART_VALUE, count, first));
    double slope = (side[0] - side[1]) / (2 * step);
    if (!(fabs(slope - length) <= 0.01 * length))
        fail_msg("%s: slope %g, gradient %g", name, slope, length);
}

static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int form = 0; form <= PLM_ATTENTION_PLAIN; form++) {
            net n;
            outcome seen;
            choice c = fused;
            c.form = (plm_attention_form)form;
            net_open(&n, &kinds[kind], &c);
            net_step(&n, &seen);
            check_slope(&n, "block.0.qkv", n.qkv, seen.qkv);
            check_slope(&n, "block.0.mix", n.mix, seen.mix);
            check_slope(&n, "block.0.up", WIDTH * WIDE, seen.up);
            net_close(&n);
        }
}

/* The row of the whole qkv weight at which stands what row `row` of the grouped one holds, for the
 * sharer number `sharer`; queries have only one. */
static int64_t whole_row(const heads *h, int64_t row, int64_t sharer)
{
    int64_t head = row / h->size, sharers = h->heads / h->key_heads;
    if (head >= h->heads) {
        int64_t part = (head - h->heads) / h->key_heads, key = (head - h->heads) % h->key_heads;
        head = h->heads * (part + 1) + key * sharers + sharer;
    }
    return head * h->size + row % h->size;
}

/* Writes the keys and values of a grouped net once for each head of queries into a whole one. */
static void repeat_keys(net *grouped, net *whole, const heads *h)
{
    static float from[WIDTH * 144], to[WIDTH * 144];
    for (int block = 0; block < BLOCKS; block++) {
        char name[32];
        snprintf(name, sizeof name, "block.%d.qkv", block);
        assert_ok(plm_session_read(grouped->session, name, PLM_PART_VALUE, grouped->qkv, from));
        for (int64_t row = 0; row < packed_of(h); row++)
            for (int64_t s = 0; s < (row < h->heads * h->size ? 1 : h->heads / h->key_heads); s++)
                memcpy(to + whole_row(h, row, s) * WIDTH, from + row * WIDTH, WIDTH * sizeof *from);
        assert_ok(plm_session_write(whole->session, name, PLM_PART_VALUE, whole->qkv, to));
    }
}

static void shared_keys_are_whole_heads_that_repeat_them_and_add_their_gradients(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        const heads *h = &kinds[kind], all = {h->heads, h->heads, h->size, h->causal};
        net grouped, whole;
        outcome few, many;
        net_open(&grouped, h, &fused);
        net_open(&whole, &all, &fused);
        repeat_keys(&grouped, &whole, h);
        net_step(&grouped, &few);
        net_step(&whole, &many);
        assert_true(fabs(few.loss - many.loss) <= 1e-6 * many.loss);
        float sums[WIDTH * 144] = {0};
        for (int64_t row = 0; row < packed_of(h); row++)
            for (int64_t s = 0; s < (row < h->heads * h->size ? 1 : h->heads / h->key_heads); s++)
                for (int64_t c = 0; c < WIDTH; c++)
                    sums[row * WIDTH + c] += many.qkv[whole_row(h, row, s) * WIDTH + c];
        assert_true(apart(few.qkv, sums, grouped.qkv) <= 1e-5);
        assert_true(apart(few.mix, many.mix, grouped.mix) <= 1e-5);
        net_close(&grouped);
        net_close(&whole);
    }
}

static void shared_keys_lower_the_plans_peak(void **state)
{
    (void)state;
    for (int form = 0; form <= PLM_ATTENTION_PLAIN; form++) {
        size_t peaks[3];
        choice c = fused;
        c.form = (plm_attention_form)form;
        for (int i = 0; i < 3; i++) {
            net n;
            net_open(&n, &(heads){4, 4 >> i, 6, true}, &c);
            peaks[i] = plm_plan_summarize(n.plan).peak_bytes;
            net_close(&n);
        }
        assert_true(peaks[0] > peaks[1] && peaks[1] > peaks[2]);
    }
}

static plm_work work_of(const plm_plan *plan, plm_op_kind kind)
{
    const plm_op_range range = plan->graph->programs[PLM_PROGRAM_FIRST];
    for (int64_t i = range.begin; i < range.end; i++)
        if (plan->graph->ops.items[i].kind == kind)
            return plm__op_work(plan->graph, &plan->graph->ops.items[i]);
    fail_msg("the plan has no such operation");
    return (plm_work){0};
}

/* 4 heads of 12 elements that share one of keys and values, of BATCH sequences of LENGTH. */
static void work_is_of_all_heads_of_queries_and_of_fewer_keys(void **state)
{
    (void)state;
    const double square = 1.0 * BATCH * LENGTH * LENGTH * 48; /* 2 of them, half under the mask */
    const double packed = 4.0 * BATCH * LENGTH * 72, plain = 4.0 * BATCH * LENGTH * 48;
    const double row = 4.0 * BATCH * LENGTH * 4, scores = row * LENGTH;
    const struct {
        plm_op_kind kind;
        double flops, bytes;
    } wanted[] = {
        {PLM_OP_ATTENTION, 2 * square, packed + plain + row},
        {PLM_OP_ATTENTION_GRAD, 5 * square, 2 * packed + 2 * plain + row},
        {PLM_OP_ATTENTION_SCORES, square, packed + scores},
        {PLM_OP_ATTENTION_APPLY, square, scores + packed + plain},
        {PLM_OP_ATTENTION_GRAD_PROBS, square, plain + packed + scores},
        {PLM_OP_ATTENTION_GRAD_QKV, 3 * square, plain + 2 * packed + 2 * scores},
    };
    net nets[2];
    for (int form = 0; form <= PLM_ATTENTION_PLAIN; form++) {
        choice c = fused;
        c.form = (plm_attention_form)form;
        net_open(&nets[form], &kinds[1], &c);
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        plm_work work =
            work_of(nets[i < 2 ? PLM_ATTENTION_FUSED : PLM_ATTENTION_PLAIN].plan, wanted[i].kind);
        assert_true(work.flops == wanted[i].flops);
        assert_true(work.bytes == wanted[i].bytes);
        assert_true(work.is_products);
    }
    net_close(&nets[0]);
    net_close(&nets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_type_and_micro_batch_gives_the_gradients_of_the_fused_form),
        cmocka_unit_test(recompute_changes_no_bit),
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(shared_keys_are_whole_heads_that_repeat_them_and_add_their_gradients),
        cmocka_unit_test(shared_keys_lower_the_plans_peak),
        cmocka_unit_test(work_is_of_all_heads_of_queries_and_of_fewer_keys),
    };
    return run_test_group(tests);
}
