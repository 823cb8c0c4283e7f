/* SPDX-License-Identifier: MIT */
/*
 * Checked launches: a checked run has the bits of a plain one, and each detector catches a planted
 * fault: a kernel that reads what is dead, one that writes past its output, one that leaves its
 * output unwritten, products with a wrong leading dimension. Where the address sanitizer watches,
 * a fault ends the program, so those run in a child.
 */
#include "engine/small_run.h"

#include <sys/wait.h>

#include "base/size.h"
#include "base/track.h"
#include "plan/plan.h"
#include "run/session.h"

static const small_shape usual = {.layers = 2,
                                  .width = 32,
                                  .heads = 4,
                                  .context = 24,
                                  .vocab = 61,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 24,
                                  .dropout = 0.1f,
                                  .seed = 9};

static void open_as(small_run *run, const small_shape *shape, const plm_strategy *strategy,
                    bool checked)
{
    small_run_describe(run, shape);
    if (strategy)
        run->strategy = *strategy;
    assert_ok(plm_device_open("cpu", 1, 0, &run->device));
    assert_ok(plm_plan_create(&run->job, &run->strategy, run->device, &run->plan));
    run->summary = plm_plan_summarize(run->plan);
    assert_ok(plm__session_create_as(run->plan, run->device, shape->seed, checked, &run->session));
}

/* Two updates, an evaluation of a window that is not whole, a generation. */
static plm_status use(const small_run *run)
{
    static small_window window;
    static float logits[256];
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    double sum;
    int64_t counted, batch = run->job.batch;
    small_window_fill(&window, batch * run->job.sequence, run->model.vocab, 3);
    for (int64_t step = 0; step < 2; step++)
        PLM_TRY(plm_session_step(run->session, step, &hyper, batch, window.tokens, window.targets,
                                 &result));
    PLM_TRY(plm_session_evaluate(run->session, batch - 1, window.tokens, window.targets, &sum,
                                 &counted));
    return plm_session_generate(run->session, 5, window.tokens, run->model.vocab, logits);
}

static void check_same_bits(const plm_strategy *strategy)
{
    static const plm_parameter_part parts[] = {PLM_PART_VALUE, PLM_PART_GRADIENT, PLM_PART_MOMENT1,
                                               PLM_PART_MOMENT2};
    static small_values plain_values, checked_values;
    small_run plain, checked;
    open_as(&plain, &usual, strategy, false);
    open_as(&checked, &usual, strategy, true);
    assert_ok(use(&plain));
    assert_ok(use(&checked));
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        small_values_read(&plain, &usual, parts[p], &plain_values);
        small_values_read(&checked, &usual, parts[p], &checked_values);
        assert_true(small_same_bits(&plain_values, &checked_values));
    }
    small_run_close(&plain);
    small_run_close(&checked);
}

static void a_checked_run_passes_with_the_bits_of_a_plain_one(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        plm_strategy strategy = plm_strategy_default();
        strategy.attention = (plm_attention_form)form;
        for (strategy.micro_batch = 1; strategy.micro_batch <= 4; strategy.micro_batch *= 2)
            check_same_bits(&strategy);
        strategy.micro_batch = 2; /* views, and operations that run twice */
        strategy.head_chunks = 3;
        strategy.recompute = PLM_RECOMPUTE_BLOCK | PLM_RECOMPUTE_ATTENTION;
        check_same_bits(&strategy);
    }
}

/* ---- planted faults ------------------------------------------------------------------------ */

typedef enum plant {
    PLANT_READS_DEAD,   /* the embedding's gradient adds what an activation was */
    PLANT_WRITES_PAST,  /* the activation function writes one byte more */
    PLANT_LEAVES_OUT,   /* the activation function skips its last element */
    PLANT_WIDE_PRODUCT, /* a product's result has a row that is one longer */
    PLANT_DEEP_PRODUCT, /* a product sums over one column more */
    PLANT_NONE
} plant;

/* The device's table with a launch of ours in front. */
static struct {
    plm_device_table table;
    const plm_device_table *real;
    size_t step_offset; /* of the step record in the arena */
    size_t dead_offset; /* bytes that hold nothing when the fault strikes */
    plant what;
    bool struck;
} planted;

static float *end_of(const plm_operand *operand)
{
    int64_t count = 1;
    for (int32_t i = 0; i < operand->rank; i++)
        count *= operand->shape[i];
    return (float *)operand->data + count;
}

/* x [R,K] times weight [N,K], described wrongly and run by the library itself. */
static plm_status run_wrong_product(plm_device *device, const plm_launch *launch, int64_t wider,
                                    int64_t deeper)
{
    plm_launch wrong = *launch;
    void *prepared = NULL;
    size_t bytes;
    int64_t k = launch->in[1].shape[1] + deeper, n = launch->in[1].shape[0] + wider;
    int64_t rows = (end_of(&launch->in[0]) - (float *)launch->in[0].data) / launch->in[1].shape[1];
    plm_operand *matrices[] = {&wrong.in[0], &wrong.in[1], &wrong.out[0]};
    const int64_t shapes[][2] = {{rows, k}, {n, k}, {rows, n}};
    for (int i = 0; i < 3; i++) {
        matrices[i]->rank = 2;
        matrices[i]->shape[0] = shapes[i][0];
        matrices[i]->shape[1] = matrices[i]->stride[0] = shapes[i][1];
        matrices[i]->stride[1] = 1;
    }
    wrong.in[2] = (plm_operand){0}; /* no bias */
    PLM_TRY(planted.real->workspace(device, &wrong, &bytes));
    wrong.workspace = aligned_alloc(64, plm__granules(bytes) + 64);
    wrong.workspace_bytes = bytes;
    plm_status status = planted.real->prepare(device, &wrong, &prepared);
    if (status == PLM_OK)
        status = planted.real->launch(device, &wrong, prepared);
    planted.real->forget(device, prepared);
    free(wrong.workspace);
    return status;
}

static plm_status strike(plm_device *device, const plm_launch *launch)
{
    const uint8_t *arena;
    float dead;
    switch (planted.what) {
    case PLANT_READS_DEAD:
        arena = (const uint8_t *)launch->step - planted.step_offset;
        memcpy(&dead, arena + planted.dead_offset, sizeof dead);
        ((float *)launch->effect[0].data)[0] += dead;
        return PLM_OK;
    case PLANT_WRITES_PAST:
        *(volatile uint8_t *)end_of(&launch->out[0]) += 1;
        return PLM_OK;
    case PLANT_LEAVES_OUT:
    case PLANT_NONE:
        return PLM_OK;
    case PLANT_WIDE_PRODUCT:
        return run_wrong_product(device, launch, 1, 0);
    case PLANT_DEEP_PRODUCT:
        return run_wrong_product(device, launch, 0, 1);
    }
    return PLM_OK;
}

static plm_status launch_planted(plm_device *device, const plm_launch *launch, void *prepared)
{
    static const plm_op_kind kinds[] = {
        [PLANT_READS_DEAD] = PLM_OP_EMBEDDING_GRAD, [PLANT_WRITES_PAST] = PLM_OP_GELU,
        [PLANT_LEAVES_OUT] = PLM_OP_GELU,           [PLANT_WIDE_PRODUCT] = PLM_OP_LINEAR,
        [PLANT_DEEP_PRODUCT] = PLM_OP_LINEAR,       [PLANT_NONE] = PLM_OP_COUNT,
    };
    plm_launch shorter = *launch;
    bool is_it = launch->kind == kinds[planted.what];
    planted.struck |= is_it;
    if (is_it && planted.what == PLANT_LEAVES_OUT) {
        plm_operand *in = &shorter.in[0], *out = &shorter.out[0];
        in->rank = out->rank = 1;
        in->shape[0] = out->shape[0] = end_of(&launch->in[0]) - (float *)launch->in[0].data - 1;
        in->stride[0] = out->stride[0] = 1;
    }
    PLM_TRY(planted.real->launch(device, &shorter, prepared));
    return is_it ? strike(device, launch) : PLM_OK;
}

/* An offset that nobody holds while the first operation of this kind in FIRST runs: of a storage
 * that is dead by then and whose place nobody took. */
static size_t find_dead(const plm_plan *plan, plm_op_kind kind)
{
    const plm_graph *graph = plan->graph;
    int64_t index = graph->programs[PLM_PROGRAM_FIRST].begin;
    while (graph->ops.items[index].kind != kind)
        index++;
    int32_t now = (int32_t)(index - graph->programs[PLM_PROGRAM_FIRST].begin);
    for (int64_t i = 0; i < graph->storages.count; i++) {
        const plm_place *dead = &plan->places[i];
        bool taken = false;
        if (!plm__plan_is_call(graph, i, PLM_PROGRAM_FIRST) || dead->home != i ||
            dead->until >= now)
            continue;
        for (int64_t k = 0; k < graph->storages.count; k++) {
            const plm_place *other = &plan->places[k];
            taken |= plm__plan_is_call(graph, k, PLM_PROGRAM_FIRST) && other->home == k &&
                     other->birth <= now && now <= other->until && other->offset <= dead->offset &&
                     dead->offset < other->offset + graph->storages.items[k].bytes;
        }
        if (!taken)
            return dead->offset;
    }
    fail_msg("everything is alive");
    return 0;
}

static void open_planted(small_run *run, plant what)
{
    open_as(run, &usual, NULL, false);
    plm_session_destroy(run->session);
    run->session = NULL;
    planted.real = run->device->table;
    planted.table = *planted.real;
    planted.table.launch = launch_planted;
    planted.what = what;
    planted.struck = false;
    planted.step_offset = run->plan->places[PLM_TENSOR_STEP].offset;
    planted.dead_offset = find_dead(run->plan, PLM_OP_EMBEDDING_GRAD);
    run->device->table = &planted.table;
    assert_ok(plm__session_create_as(run->plan, run->device, 1, true, &run->session));
}

static void close_planted(small_run *run)
{
    run->device->table = planted.real;
    small_run_close(run);
}

static plm_status step_once(const small_run *run, plm_step_result *result)
{
    static small_window window;
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, run->job.batch * run->job.sequence, run->model.vocab, 3);
    return plm_session_step(run->session, 0, &hyper, run->job.batch, window.tokens, window.targets,
                            result);
}

/* The launch is compared: the step fails, and says which operation and what it did. */
static void check_told(plant what, const char *op, const char *says)
{
    small_run run;
    plm_step_result result;
    plm_error error;
    open_planted(&run, what);
    assert_int_equal(step_once(&run, &result), PLM_ERROR_DEVICE);
    assert_true(planted.struck);
    plm_error_get(&error);
    if (!strstr(error.message, op) || !strstr(error.message, says))
        fail_msg("wanted '%s' and '%s', found: %s", op, says, error.message);
    close_planted(&run);
}

/* The sanitizer watches the launch: the program ends with its report. */
static void check_ended(plant what)
{
    char report[4096];
    int ends[2], status;
    size_t count = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    if (child == 0) {
        small_run run;
        plm_step_result result;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        open_planted(&run, what);
        plm_status step = step_once(&run, &result);
        _exit(step == PLM_OK ? 0 : 2); /* not reached when it is caught */
    }
    close(ends[1]);
    for (ssize_t more; (more = read(ends[0], report + count, sizeof report - 1 - count)) > 0;)
        count += (size_t)more;
    if (count == sizeof report - 1) /* the beginning is enough; the rest must go somewhere */
        for (char rest[512]; read(ends[0], rest, sizeof rest) > 0;)
            ;
    report[count] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2));
    if (!strstr(report, "use-after-poison"))
        fail_msg("the sanitizer said something else: %.300s", report);
}

static void check_kernel_caught(plant what, const char *op, const char *says)
{
    if (PLM_TRACK)
        check_ended(what);
    else
        check_told(what, op, says);
}

static void a_kernel_that_reads_what_is_dead_is_caught(void **state)
{
    (void)state;
    check_kernel_caught(PLANT_READS_DEAD, "embedding", "may not read");
}

static void a_kernel_that_writes_past_its_output_is_caught(void **state)
{
    (void)state;
    check_kernel_caught(PLANT_WRITES_PAST, "gelu", "wrote where it may not");
}

/* Under the sanitizer the NaN that was there before comes through to the gradient. */
static void a_kernel_that_leaves_its_output_unwritten_is_caught(void **state)
{
    (void)state;
    small_run run;
    plm_step_result result;
    if (!PLM_TRACK) {
        check_told(PLANT_LEAVES_OUT, "gelu", "may not read");
        return;
    }
    open_planted(&run, PLANT_LEAVES_OUT);
    assert_ok(step_once(&run, &result));
    assert_true(result.skipped);
    close_planted(&run);
}

static void a_product_with_a_wrong_leading_dimension_is_caught(void **state)
{
    (void)state;
    check_told(PLANT_WIDE_PRODUCT, "linear", "wrote where it may not");
    check_told(PLANT_DEEP_PRODUCT, "linear", "may not read");
}

static void without_a_fault_the_planted_table_passes(void **state)
{
    (void)state;
    small_run run;
    plm_step_result result;
    open_planted(&run, PLANT_NONE);
    assert_ok(step_once(&run, &result));
    assert_false(result.skipped);
    close_planted(&run);
}

static void a_checked_session_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    small_run run;
    bool fired = true;
    open_as(&run, &usual, NULL, false);
    for (int64_t n = 1; fired; n++) {
        plm_session *session = NULL;
        plm_host_stats before = plm__host_stats_get();
        plm__host_fail_at(n, true);
        plm_status status = plm__session_create_as(run.plan, run.device, 1, true, &session);
        fired = plm__host_fail_at(0, false);
        plm_session_destroy(session);
        assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
        assert_int_equal(plm__host_stats_get().live_bytes, before.live_bytes);
    }
    small_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checked_run_passes_with_the_bits_of_a_plain_one),
        cmocka_unit_test(without_a_fault_the_planted_table_passes),
        cmocka_unit_test(a_kernel_that_reads_what_is_dead_is_caught),
        cmocka_unit_test(a_kernel_that_writes_past_its_output_is_caught),
        cmocka_unit_test(a_kernel_that_leaves_its_output_unwritten_is_caught),
        cmocka_unit_test(a_product_with_a_wrong_leading_dimension_is_caught),
        cmocka_unit_test(a_checked_session_survives_the_failure_of_every_allocation),
    };
    return run_test_group(tests);
}
