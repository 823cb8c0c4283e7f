/* SPDX-License-Identifier: MIT */
/* Tapes: a plan and a run in real time, as traces and as files that a viewer opens. */
#include "base/file.h"
#include "base/json.h"
#include "plan/tape.h"
#include "plimsoll/device_profile.h"
#include "engine/small_run.h"

static const small_shape shape = {.layers = 2,
                                  .width = 32,
                                  .heads = 2,
                                  .context = 16,
                                  .vocab = 60,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 16,
                                  .seed = 1};

static char path[128];

static void step(small_run *run, int64_t index)
{
    small_window window;
    plm_step_result result;
    plm_hyper hyper = plm_hyper_default();
    small_window_fill(&window, shape.batch * shape.sequence, shape.vocab, 1);
    assert_ok(plm_session_step(run->session, index, &hyper, shape.batch, window.tokens,
                               window.targets, &result));
}

static plm_tape *tape_of_run(small_run *run, int64_t wanted, int64_t steps)
{
    plm_tape *tape = NULL;
    assert_ok(plm_tape_create(run->plan, wanted, &tape));
    plm_session_tape(run->session, tape);
    for (int64_t i = 0; i < steps; i++)
        step(run, i);
    return tape;
}

static int64_t ops_of(const small_run *run, plm_program program)
{
    return run->plan->graph->programs[program].end - run->plan->graph->programs[program].begin;
}

static json_t *export_and_read(const plm_tape *tape)
{
    plm_file file;
    json_t *root = NULL;
    assert_ok(plm_tape_export(tape, path, "small \"model\""));
    assert_ok(plm__file_map(path, &file));
    assert_ok(plm__json_read("the trace", file.bytes, file.byte_count, &root));
    plm__file_unmap(&file);
    unlink(path);
    return root;
}

/* What a viewer shows. */
typedef struct shown {
    int64_t slices, marks;
    size_t allocated, reserved; /* largest */
    double end;                 /* of the last slice, microseconds */
    char process[256];
} shown;

/* Reads the file's objects; slices of operations must follow each other without overlap. */
static shown look(json_t *root)
{
    shown seen = {0};
    json_t *event;
    size_t i;
    json_array_foreach (json_object_get(root, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const char *name = json_string_value(json_object_get(event, "name"));
        const json_t *args = json_object_get(event, "args");
        double begin = json_number_value(json_object_get(event, "ts"));
        if (*phase == 'M' && strcmp(name, "process_name") == 0)
            snprintf(seen.process, sizeof seen.process, "%s",
                     json_string_value(json_object_get(args, "name")));
        size_t bytes = (size_t)json_integer_value(json_object_get(args, "bytes"));
        size_t *most = strcmp(name, "allocated") == 0 ? &seen.allocated : &seen.reserved;
        if (*phase == 'C' && bytes > *most)
            *most = bytes;
        if (*phase != 'X')
            continue;
        if (json_integer_value(json_object_get(event, "tid")) == 1) {
            seen.marks++;
            continue;
        }
        seen.slices++;
        assert_true(begin >= seen.end - 1e-6);
        seen.end = begin + json_number_value(json_object_get(event, "dur"));
    }
    json_decref(root);
    return seen;
}

static void a_run_has_a_slice_for_every_operation_and_the_plans_memory(void **state)
{
    (void)state;
    small_run run;
    small_run_open(&run, &shape);
    plm_tape *tape = tape_of_run(&run, 2, 4);
    int64_t launches =
        2 * (ops_of(&run, PLM_PROGRAM_FIRST) + ops_of(&run, PLM_PROGRAM_NEXT) +
             ops_of(&run, PLM_PROGRAM_UPDATE)); /* and not those of the two steps that followed */
    plm_tape_summary summary = plm_tape_summarize(tape);
    assert_int_equal(summary.steps, 2);
    assert_int_equal(summary.launches, launches);
    assert_true(summary.timed && summary.measured && !summary.is_cut && summary.seconds > 0);
    shown seen = look(export_and_read(tape));
    assert_int_equal(seen.slices, launches);
    assert_int_equal(seen.marks, 1 + 2 * 3); /* persistent, and the programs of two updates */
    assert_int_equal(seen.allocated, run.summary.lower_bound_bytes);
    assert_int_equal(seen.reserved, run.summary.peak_bytes);
    assert_true(fabs(seen.end * 1e-6 - summary.seconds) < 1e-8);
    assert_string_equal(seen.process,
                        "run of small \"model\": the plan's lifetimes, times as measured");
    plm_tape_destroy(tape);
    small_run_close(&run);
}

static void a_plan_is_told_in_the_time_that_rates_predict(void **state)
{
    (void)state;
    plm_device_profile rates = {
        .name = "test", .threads = 1, .bandwidth = 1e9, .launch_seconds = 1e-6};
    rates.product_flops[PLM_DTYPE_F32] = 1e9;
    for (int timed = 0; timed < 2; timed++) {
        small_run run;
        plm_tape *tape = NULL;
        small_run_open(&run, &shape);
        plm_device_use_profile(run.device, timed ? &rates : NULL);
        assert_ok(plm_tape_predict(run.plan, run.device, &tape));
        plm_tape_summary summary = plm_tape_summarize(tape);
        assert_int_equal(summary.launches, run.plan->graph->ops.count);
        assert_false(summary.measured);
        assert_int_equal(summary.timed, timed);
        assert_true(timed == (summary.seconds > 0));
        shown seen = look(export_and_read(tape));
        assert_int_equal(seen.slices, summary.launches);
        assert_int_equal(seen.allocated, run.summary.lower_bound_bytes);
        assert_int_equal(seen.reserved, run.summary.peak_bytes);
        assert_non_null(strstr(seen.process, timed ? "as predicted" : "no times"));
        plm_tape_destroy(tape);
        small_run_close(&run);
    }
}

static void a_trace_of_a_run_has_the_plans_peak_and_ends_with_what_persists(void **state)
{
    (void)state;
    small_run run;
    plm_trace *trace = NULL, *planned = NULL;
    small_run_open(&run, &shape);
    plm_tape *tape = tape_of_run(&run, 1, 1);
    assert_ok(plm_tape_trace(tape, &trace));
    assert_ok(plm_plan_trace(run.plan, &planned));
    plm_trace_peak peak = plm_trace_find_peak(trace);
    assert_int_equal(peak.bytes_taken, plm_trace_find_peak(planned).bytes_taken);
    int64_t count, live_count, *live = NULL;
    size_t bytes = 0;
    const plm_event *events = plm_trace_events(trace, &count);
    assert_ok(plm_trace_live_at(trace, count - 1, &live, &live_count));
    for (int64_t i = 0; i < live_count; i++)
        bytes += events[live[i]].bytes_taken;
    assert_true(bytes <= run.summary.persistent_bytes);
    assert_true(peak.time > 0 && peak.time < events[count - 1].time);
    plm_free(live);
    plm_trace_destroy(trace);
    plm_trace_destroy(planned);
    plm_tape_destroy(tape);
    small_run_close(&run);
}

static void a_tape_is_bounded_and_holds_whole_programs(void **state)
{
    (void)state;
    small_run run;
    plm_tape *tape = NULL;
    small_run_open(&run, &shape);
    assert_ok(plm_tape_create(run.plan, INT64_MAX, &tape));
    int64_t passes = 0;
    while (!plm__tape_is_full(tape)) {
        plm_program program = passes % 3 == 0   ? PLM_PROGRAM_FIRST
                              : passes % 3 == 1 ? PLM_PROGRAM_NEXT
                                                : PLM_PROGRAM_UPDATE;
        assert_null(plm__tape_begin(tape, PLM_PROGRAM_EVALUATE));
        passes += plm__tape_begin(tape, program) != NULL;
    }
    plm_tape_summary summary = plm_tape_summarize(tape);
    assert_true(summary.is_cut);
    assert_true(summary.launches <= PLM_TAPE_LAUNCHES_MAX);
    assert_true(summary.launches > PLM_TAPE_LAUNCHES_MAX - 1000);
    assert_int_equal(summary.steps, passes / 3);
    plm_tape_destroy(tape);
    small_run_close(&run);
}

static void nothing_on_a_tape_is_refused(void **state)
{
    (void)state;
    small_run run;
    plm_tape *tape = NULL;
    small_run_open(&run, &shape);
    assert_int_equal(plm_tape_create(run.plan, 0, &tape), PLM_ERROR_ARGUMENT);
    assert_ok(plm_tape_create(run.plan, 1, &tape));
    assert_int_equal(plm_tape_export(tape, path, "small"), PLM_ERROR_STATE);
    assert_int_equal(access(path, F_OK), -1);
    plm_tape_destroy(tape);
    small_run_close(&run);
}

typedef struct sweep {
    small_run run;
    plm_tape *taped;
} sweep;

static plm_status make_and_export(void *context)
{
    const sweep *s = context;
    plm_tape *tape = NULL;
    plm_status status = plm_tape_create(s->run.plan, 3, &tape);
    plm_tape_destroy(tape);
    tape = NULL;
    if (status == PLM_OK)
        status = plm_tape_predict(s->run.plan, s->run.device, &tape);
    if (status == PLM_OK)
        status = plm_tape_export(tape, path, "small");
    if (status == PLM_OK)
        status = plm_tape_export(s->taped, path, "small");
    plm_tape_destroy(tape);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    sweep s;
    small_run_open(&s.run, &shape);
    s.taped = tape_of_run(&s.run, 1, 1);
    sweep_failures(make_and_export, &s);
    unlink(path);
    plm_tape_destroy(s.taped);
    small_run_close(&s.run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_has_a_slice_for_every_operation_and_the_plans_memory),
        cmocka_unit_test(a_plan_is_told_in_the_time_that_rates_predict),
        cmocka_unit_test(a_trace_of_a_run_has_the_plans_peak_and_ends_with_what_persists),
        cmocka_unit_test(a_tape_is_bounded_and_holds_whole_programs),
        cmocka_unit_test(nothing_on_a_tape_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    snprintf(path, sizeof path, "/tmp/plimsoll-test-tape-%ld.json", (long)getpid());
    return run_test_group(tests);
}
