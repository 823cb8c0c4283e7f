/* SPDX-License-Identifier: MIT */
/*
 * Steps in flight: submitted ahead they are the steps that they are one at a time, to the bit, and
 * whichever call of the device fails, a status says so and everything is given back. On a device of
 * two queues the same holds however late either queue is.
 */
#include "engine/fake_queues.h"
#include "engine/small_run.h"

#include "base/size.h"
#include "device/fault/fault.h"
#include "plan/plan.h"
#include "run/session.h"

enum { STEPS = 6, STRIDE = SANITIZED ? 13 : 1 /* over calls that fail */ };

static const small_shape usual = {.layers = 2,
                                  .width = 16,
                                  .heads = 2,
                                  .context = 8,
                                  .vocab = 40,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 8,
                                  .dropout = 0.1f,
                                  .seed = 3};

/* A window of its own for each step; the last sequence of every second one is left out, so that a
 * micro-batch is filled up. */
static plm_status submit(small_run *run, const small_shape *shape, int64_t step)
{
    small_window window;
    plm_hyper hyper = plm_hyper_default();
    bool bert = shape->family != NULL;
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, (uint32_t)step + 7);
    if (shape->update == PLM_UPDATE_EARLY)
        hyper.clip_norm = 0;
    plm_session_use_types(run->session, bert ? window.types : NULL);
    plm_status status = plm_session_submit(run->session, step, &hyper, shape->batch - step % 2,
                                           window.tokens, window.targets);
    plm_session_use_types(run->session, NULL);
    memset(&window, 0x7F, sizeof window); /* the caller's again */
    return status;
}

/* Trains with so many steps in flight, and keeps what each was told to be. */
static void train(small_run *run, const small_shape *shape, int in_flight, plm_step_result *results)
{
    int64_t submitted = 0;
    memset(results, 0, STEPS * sizeof *results);
    for (int64_t step = 0; step < STEPS; step++) {
        for (; submitted < STEPS && submitted - step < in_flight; submitted++)
            assert_ok(submit(run, shape, submitted));
        assert_int_equal(plm_session_in_flight(run->session), submitted - step);
        assert_ok(plm_session_collect(run->session, &results[step]));
    }
    assert_int_equal(plm_session_in_flight(run->session), 0);
}

static void assert_same_results(const plm_step_result *a, const plm_step_result *b)
{
    for (int i = 0; i < STEPS; i++) {
        assert_memory_equal(&a[i].loss, &b[i].loss, sizeof a[i].loss);
        assert_memory_equal(&a[i].gradient_norm, &b[i].gradient_norm, sizeof a[i].gradient_norm);
        assert_memory_equal(&a[i].loss_scale, &b[i].loss_scale, sizeof a[i].loss_scale);
        assert_int_equal(a[i].counted, b[i].counted);
        assert_int_equal(a[i].skipped, b[i].skipped);
    }
}

/* What is trained in these tests. */
static small_shape shape_of(int which)
{
    small_shape shape = usual;
    if (which == 1) { /* a loss scale */
        shape.precision = PLM_DTYPE_F16;
        shape.micro_batch = 1;
    } else if (which == 2) {
        shape.precision = shape.gradient = PLM_DTYPE_BF16;
        shape.update = PLM_UPDATE_EARLY;
        shape.micro_batch = shape.batch;
    } else if (which == 3) { /* types of tokens */
        shape.family = "bert";
        shape.context = shape.sequence;
    }
    return shape;
}

enum { SHAPE_COUNT = 4 };

static void steps_submitted_ahead_are_the_steps_one_at_a_time(void **state)
{
    (void)state;
    static small_values expected, found;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        small_shape shape = shape_of(i);
        plm_step_result one[STEPS], ahead[STEPS];
        small_run run;
        small_run_open(&run, &shape);
        train(&run, &shape, 1, one);
        small_values_read(&run, &shape, PLM_PART_VALUE, &expected);
        small_run_close(&run);
        small_run_open(&run, &shape);
        train(&run, &shape, PLM_STEPS_IN_FLIGHT_MAX, ahead);
        small_values_read(&run, &shape, PLM_PART_VALUE, &found);
        small_run_close(&run);
        assert_same_results(one, ahead);
        assert_true(small_same_bits(&found, &expected));
        assert_true(one[0].loss > 0 && one[1].loss != one[0].loss);
    }
}

/* The second of two steps in flight is not finite, which halves the scale that the third has. */
static void a_gradient_that_is_not_finite_is_told_of_its_own_step(void **state)
{
    (void)state;
    static float values[SMALL_TENSOR_MAX];
    const int64_t count = usual.width;
    small_shape shape = shape_of(1);
    small_run run;
    plm_step_result result;
    small_run_open(&run, &shape);
    assert_ok(submit(&run, &shape, 0));
    assert_ok(plm_session_read(run.session, "head.ln.weight", PLM_PART_VALUE, count, values));
    float kept = values[0];
    values[0] = INFINITY;
    assert_ok(plm_session_write(run.session, "head.ln.weight", PLM_PART_VALUE, count, values));
    assert_ok(submit(&run, &shape, 1));
    assert_ok(plm_session_collect(run.session, &result));
    assert_false(result.skipped);
    float scale = result.loss_scale;
    values[0] = kept;
    assert_ok(plm_session_write(run.session, "head.ln.weight", PLM_PART_VALUE, count, values));
    assert_ok(submit(&run, &shape, 2));
    assert_ok(plm_session_collect(run.session, &result));
    assert_true(result.skipped);
    assert_true(result.loss_scale == scale);
    assert_ok(plm_session_collect(run.session, &result));
    assert_false(result.skipped);
    assert_true(result.loss_scale == scale / 2);
    assert_int_equal(plm__session_counters(run.session).updates, 2);
    assert_int_equal(plm__session_counters(run.session).skipped, 1);
    small_run_close(&run);
}

static void assert_refused(plm_status status, const char *words)
{
    plm_error error;
    assert_int_equal(status, PLM_ERROR_STATE);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, words));
    assert_null(strchr(error.message, '\n'));
}

static void more_steps_than_may_be_in_flight_are_refused_and_nothing_is_lost(void **state)
{
    (void)state;
    small_run run;
    plm_step_result results[STEPS], result = {.counted = -7};
    small_run_open(&run, &usual);
    train(&run, &usual, 1, results);
    small_run_close(&run);
    small_run_open(&run, &usual);
    assert_refused(plm_session_collect(run.session, &result), "found none; submit one first");
    for (int64_t i = 0; i < PLM_STEPS_IN_FLIGHT_MAX; i++)
        assert_ok(submit(&run, &usual, i));
    assert_refused(submit(&run, &usual, PLM_STEPS_IN_FLIGHT_MAX),
                   "wanted fewer than 2 steps in flight, found 2; collect one first");
    assert_int_equal(result.counted, -7);
    for (int64_t i = 0; i < PLM_STEPS_IN_FLIGHT_MAX; i++) {
        assert_ok(plm_session_collect(run.session, &result));
        assert_true(result.loss == results[i].loss);
    }
    assert_refused(plm_session_collect(run.session, &result), "submit one first");
    small_run_close(&run);
}

static void what_is_asked_while_steps_are_in_flight_is_refused_or_waits(void **state)
{
    (void)state;
    small_window window;
    small_run run;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    plm_session_counters counters = {0};
    float logits[64], values[64];
    double sum;
    int64_t counted;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 1);
    small_run_open(&run, &usual);
    assert_ok(submit(&run, &usual, 0));
    assert_refused(
        plm_session_step(run.session, 1, &hyper, 1, window.tokens, window.targets, &result),
        "wanted no step in flight, found 1");
    assert_refused(
        plm_session_evaluate(run.session, 1, window.tokens, window.targets, &sum, &counted),
        "wanted no step in flight, found 1");
    assert_refused(plm_session_generate(run.session, 1, window.tokens, usual.vocab, logits),
                   "wanted no step in flight, found 1");
    assert_refused(plm__session_set_counters(run.session, counters),
                   "wanted no step in flight, found 1");
    assert_ok(plm_session_read(run.session, "head.ln.bias", PLM_PART_VALUE, usual.width, values));
    assert_true(values[0] != 0); /* as the update left it */
    assert_ok(plm_session_collect(run.session, &result));
    assert_ok(plm_session_evaluate(run.session, 1, window.tokens, window.targets, &sum, &counted));
    small_run_close(&run);
}

static void a_session_may_end_with_steps_in_flight(void **state)
{
    (void)state;
    plm_host_stats before = plm__host_stats_get();
    small_run run;
    small_run_open(&run, &usual);
    for (int64_t i = 0; i < PLM_STEPS_IN_FLIGHT_MAX; i++)
        assert_ok(submit(&run, &usual, i));
    small_run_close(&run);
    assert_int_equal(plm__host_stats_get().live_count, before.live_count);
}

/* ---- two queues ----------------------------------------------------------------------------- */

static const plm_queue lates[] = {PLM_QUEUE_COMPUTE, PLM_QUEUE_COPY};

/* What a training leaves: the results of its steps and the parameters after them. */
typedef struct left_behind {
    plm_step_result results[STEPS];
    small_values values;
} left_behind;

static void train_on_cpu(const small_shape *shape, left_behind *left)
{
    small_run run;
    small_run_open(&run, shape);
    train(&run, shape, 1, left->results);
    small_values_read(&run, shape, PLM_PART_VALUE, &left->values);
    small_run_close(&run);
}

static void train_on_queues(fake_queues *fake, const small_shape *shape, bool checked,
                            left_behind *left)
{
    small_run run;
    small_run_describe(&run, shape);
    assert_ok(plm_plan_create(&run.job, &run.strategy, &fake->head, &run.plan));
    assert_ok(plm__session_create_as(run.plan, &fake->head, shape->seed, checked, &run.session));
    train(&run, shape, PLM_STEPS_IN_FLIGHT_MAX, left->results);
    small_values_read(&run, shape, PLM_PART_VALUE, &left->values);
    small_run_close(&run);
}

static void whichever_queue_is_late_the_bits_are_those_of_one_queue(void **state)
{
    (void)state;
    static left_behind expected, found;
    for (int i = 0; i < SHAPE_COUNT * 4; i++) {
        small_shape shape = shape_of(i / 4);
        fake_queues fake;
        bool checked = i % 4 > 1; /* and held to what its launches declare */
        train_on_cpu(&shape, &expected);
        fake_queues_open(&fake, lates[i % 2], 0);
        train_on_queues(&fake, &shape, checked, &found);
        int64_t loads = STEPS * (shape.batch / shape.micro_batch);
        int64_t filled_up = shape.micro_batch == 1 ? STEPS / 2 : 0; /* sequences left out whole */
        assert_int_equal(fake.moved, (loads - filled_up) * (shape.family ? 4 : 3));
        plm_device_destroy(&fake.head);
        assert_same_results(expected.results, found.results);
        assert_true(small_same_bits(&expected.values, &found.values));
    }
}

static bool same_losses(const left_behind *a, const left_behind *b)
{
    bool same = true;
    for (int i = 0; i < STEPS; i++)
        same &= a->results[i].loss == b->results[i].loss;
    return same;
}

/* The test above would see each wait that is missing. */
static void each_wait_is_needed(void **state)
{
    (void)state;
    static left_behind expected, found;
    small_shape shape = usual;
    shape.dropout = 0;
    train_on_cpu(&shape, &expected);
    for (int planted = 0; planted < 3; planted++) {
        fake_queues fake;
        /* a slot that is read before it is full; filled before it was read; a result too soon */
        fake_queues_open(&fake, planted == 0 ? PLM_QUEUE_COPY : PLM_QUEUE_COMPUTE, 0);
        fake.no_wait[PLM_QUEUE_COMPUTE] = planted == 0;
        fake.no_wait[PLM_QUEUE_COPY] = planted == 1;
        fake.no_await = planted == 2;
        train_on_queues(&fake, &shape, false, &found);
        assert_false(same_losses(&expected, &found));
        plm_device_destroy(&fake.head);
    }
}

/* The blocks of the plan's trace whose names begin with "next"; *bytes = what they take. */
static int count_slot(const plm_plan *plan, size_t *bytes)
{
    plm_trace *trace = NULL;
    int64_t events, owners;
    int found = 0;
    *bytes = 0;
    assert_ok(plm_plan_trace(plan, &trace));
    const plm_event *event = plm_trace_events(trace, &events);
    const plm_owner *owner = plm_trace_owners(trace, &owners);
    for (int64_t i = 0; i < events; i++) {
        if (event[i].owner == PLM_TRACE_NO_OWNER ||
            strncmp(plm_trace_text(trace, owner[event[i].owner].name), "next ", 5) != 0)
            continue;
        assert_int_equal(event[i].kind, PLM_EVENT_BLOCK_ALLOC); /* it lives to the end */
        *bytes += event[i].bytes_taken;
        found++;
    }
    plm_trace_destroy(trace);
    return found;
}

/* Exactly the predicted bytes suffice, the slot in them, and one granule less is refused. */
static void a_slot_is_planned_told_and_handed_out(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPE_COUNT; i++) {
        small_shape shape = shape_of(i);
        small_run run, alone;
        fake_queues fake;
        plm_session_measure measure;
        plm_step_result results[STEPS];
        size_t told, ids = (size_t)(shape.micro_batch * shape.sequence) * sizeof(int32_t);
        int parts = shape.family ? 3 : 2;
        fake_queues_open(&fake, PLM_QUEUE_COPY, 0);
        small_run_describe(&run, &shape);
        assert_ok(plm_plan_create(&run.job, &run.strategy, &fake.head, &run.plan));
        run.summary = plm_plan_summarize(run.plan);
        assert_int_equal(count_slot(run.plan, &told), parts + 1);
        assert_int_equal(told, (size_t)parts * plm__granules(ids) + PLM_GRANULE_BYTES);
        small_run_open(&alone, &shape);
        assert_int_equal(alone.plan->slot.bytes, 0);
        assert_int_equal(run.summary.persistent_bytes, alone.summary.persistent_bytes + told);
        assert_int_equal(run.summary.transient_bytes, alone.summary.transient_bytes);
        assert_int_equal(run.summary.peak_bytes, alone.summary.peak_bytes + told);
        small_run_close(&alone);

        plm__device_limit(&fake.head, run.summary.arena_bytes - PLM_GRANULE_BYTES);
        assert_int_equal(plm_session_create(run.plan, &fake.head, 1, &run.session),
                         PLM_ERROR_DEVICE_MEMORY);
        plm__device_limit(&fake.head, run.summary.arena_bytes);
        assert_ok(plm_session_create(run.plan, &fake.head, 1, &run.session));
        train(&run, &shape, PLM_STEPS_IN_FLIGHT_MAX, results);
        assert_ok(plm_session_measure_memory(run.session, &measure));
        assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
        assert_true(measure.last_granule_written);
        small_run_close(&run);
        plm_device_destroy(&fake.head);
    }
}

static void a_plan_that_does_not_train_has_no_slot(void **state)
{
    (void)state;
    fake_queues fake;
    small_run run;
    fake_queues_open(&fake, PLM_QUEUE_COPY, 0);
    small_run_describe(&run, &usual);
    run.job.trains = false;
    assert_ok(plm_plan_create(&run.job, &run.strategy, &fake.head, &run.plan));
    assert_int_equal(run.plan->slot.bytes, 0);
    small_run_close(&run);
    plm_device_destroy(&fake.head);
}

/* ---- each call fails once ------------------------------------------------------------------- */

/* As `train`, with the most that may be in flight, until something fails. */
static plm_status try_to_train(small_run *run)
{
    plm_step_result result;
    for (int64_t step = 0, submitted = 0; step < 3; step++) {
        for (; submitted < 3 && submitted - step < PLM_STEPS_IN_FLIGHT_MAX; submitted++)
            PLM_TRY(submit(run, &usual, submitted));
        PLM_TRY(plm_session_collect(run->session, &result));
    }
    return PLM_OK;
}

/* The device whose calls fail: the CPU, or two queues over it, one of them late. */
static void open_inner(int which, fake_queues *fake, plm_device **inner)
{
    *inner = &fake->head;
    if (which == 0)
        assert_ok(plm_device_open("cpu", 1, 0, inner));
    else
        fake_queues_open(fake, lates[which - 1], 0);
}

/* *fired = whether there was an n-th call. */
static void fail_call(int which, int64_t n, bool persistent, bool *fired)
{
    plm_host_stats before = plm__host_stats_get();
    plm_fault fault = {0};
    plm_device *inner = NULL;
    fake_queues fake;
    small_run run;
    plm_error error;
    small_run_describe(&run, &usual);
    open_inner(which, &fake, &inner);
    assert_ok(plm__device_create_fault(inner, &fault, &run.device));
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    plm__fault_at(&fault, PLM_FAULT_ANY, n, persistent);
    plm_status status = plm__session_create_as(run.plan, run.device, 1, false, &run.session);
    if (status == PLM_OK)
        status = try_to_train(&run);
    plm_error_get(&error);
    small_run_close(&run);
    *fired = plm__fault_at(&fault, PLM_FAULT_ANY, 0, false);
    bool told = status == PLM_ERROR_DEVICE || status == PLM_ERROR_DEVICE_MEMORY;
    /* the fence at a session's end is nobody's loss */
    if (*fired && fault.calls[PLM_FAULT_AWAIT] < 3 ? !told : status != PLM_OK && !told)
        fail_msg("call %d: status %s", (int)n, plm_status_text(status));
    if (status != PLM_OK)
        assert_null(strchr(error.message, '\n'));
    assert_int_equal(fault.regions, 0);
    assert_int_equal(fault.prepared, 0);
    assert_int_equal(fault.signals, 0);
    assert_int_equal(fault.devices, 0);
    assert_int_equal(plm__host_stats_get().live_count, before.live_count);
    assert_int_equal(plm__host_stats_get().live_bytes, before.live_bytes);
}

static void whichever_call_fails_with_steps_in_flight_nothing_is_leaked(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool fired = true;
        int64_t n = 1 - STRIDE;
        while (fired)
            fail_call(i / 2, n += STRIDE, i % 2, &fired);
        assert_true(n > 200);
    }
}

/* The step's own wait fails, and with it every call to the session's end. */
static void a_step_that_fails_is_not_in_flight_and_its_failure_outlives_the_session(void **state)
{
    (void)state;
    static small_window window;
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    plm_fault fault = {0};
    plm_device *inner;
    plm_error first, last;
    small_run run;
    small_window_fill(&window, usual.batch * usual.sequence, usual.vocab, 1);
    small_run_describe(&run, &usual);
    assert_ok(plm_device_open("cpu", 1, 0, &inner));
    assert_ok(plm__device_create_fault(inner, &fault, &run.device));
    assert_ok(plm_plan_create(&run.job, &run.strategy, run.device, &run.plan));
    assert_ok(plm__session_create_as(run.plan, run.device, 1, false, &run.session));
    for (int64_t step = 0; step < 2; step++) {
        plm__fault_at(&fault, PLM_FAULT_AWAIT, step == 0, false); /* the first one fails */
        plm_status status = plm_session_step(run.session, step, &hyper, usual.batch, window.tokens,
                                             window.targets, &result);
        assert_int_equal(status, step == 0 ? PLM_ERROR_DEVICE : PLM_OK);
        assert_int_equal(plm_session_in_flight(run.session), 0);
    }
    plm__fault_at(&fault, PLM_FAULT_ANY, 1, true);
    assert_int_equal(plm_session_step(run.session, 2, &hyper, usual.batch, window.tokens,
                                      window.targets, &result),
                     PLM_ERROR_DEVICE);
    plm_error_get(&first);
    plm_session_destroy(run.session);
    run.session = NULL;
    plm_error_get(&last);
    assert_string_equal(last.message, first.message);
    plm__fault_at(&fault, PLM_FAULT_ANY, 0, false);
    small_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_submitted_ahead_are_the_steps_one_at_a_time),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_told_of_its_own_step),
        cmocka_unit_test(more_steps_than_may_be_in_flight_are_refused_and_nothing_is_lost),
        cmocka_unit_test(what_is_asked_while_steps_are_in_flight_is_refused_or_waits),
        cmocka_unit_test(a_session_may_end_with_steps_in_flight),
        cmocka_unit_test(whichever_queue_is_late_the_bits_are_those_of_one_queue),
        cmocka_unit_test(each_wait_is_needed),
        cmocka_unit_test(a_slot_is_planned_told_and_handed_out),
        cmocka_unit_test(a_plan_that_does_not_train_has_no_slot),
        cmocka_unit_test(whichever_call_fails_with_steps_in_flight_nothing_is_leaked),
        cmocka_unit_test(a_step_that_fails_is_not_in_flight_and_its_failure_outlives_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
