/* SPDX-License-Identifier: MIT */
/* torch/findings: every view on the recordings that show it, and verdicts on made-up failures. */
#include "plimsoll/findings.h"

#include "unit/torch.h"
#include "trace/trace.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"
#define MIB        ((size_t)1 << 20)
#define GIB        ((size_t)1 << 30)

typedef struct found {
    plm_snapshot *snapshot;
    plm_findings *findings;
} found;

static found find_with(const char *name, size_t capacity)
{
    char path[512];
    found it = {NULL, NULL};
    snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", name);
    assert_ok(plm_snapshot_read(path, &it.snapshot));
    assert_ok(
        find_in(it.snapshot, (plm_findings_options){.capacity_bytes = capacity}, &it.findings));
    return it;
}

static void end(found it)
{
    plm_findings_destroy(it.findings);
    plm_snapshot_destroy(it.snapshot);
}

static void assert_site(const plm_findings *findings, int64_t place, const char *wanted)
{
    char text[PLM_CALL_SITE_TEXT];
    assert_string_equal(plm_call_site_text(findings, place, text), wanted);
}

/* ---- sites ---- */

static void sites_add_up_to_the_peak_and_to_the_end(void **state)
{
    (void)state;
    static const char *const names[] = {"cat_spike", "gpt_dynamic_length_60_steps",
                                        "gpt350m_amp_b4_t2048_cap12g",
                                        "ring_overflow_1000_entries"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found it = find_with(names[i], 0);
        size_t at_peak = 0, at_end = 0;
        for (int64_t k = 0; k < it.findings->site_count; k++) {
            at_peak += it.findings->sites[k].peak_bytes;
            at_end += it.findings->sites[k].end_bytes;
            assert_true(k == 0 ||
                        it.findings->sites[k - 1].peak_bytes >= it.findings->sites[k].peak_bytes);
        }
        assert_int_equal(at_peak, it.findings->allocated_peak_bytes);
        assert_int_equal(at_end, it.findings->device->active_bytes);
        end(it);
    }
}

static void library_frames_are_folded_into_the_users_line(void **state)
{
    (void)state;
    found it = find_with("gpt350m_amp_b4_t2048_cap12g", 0);
    assert_site(it.findings, 0, "forward gpt_torch.py:29");
    assert_int_equal(it.findings->sites[0].peak_blocks, 11);
    assert_int_equal(it.findings->sites[0].end_blocks, 0);
    assert_true(it.findings->has_stacks);
    end(it);
    it = find_with("cpp_and_python_stacks", 0);
    assert_site(it.findings, 0, "cppstacks snapshots_torch.py:176");
    end(it);
}

static void blocks_without_a_stack_are_told_apart_by_size(void **state)
{
    (void)state;
    found it = find_with("gpt_dynamic_length_expandable", 0);
    assert_false(it.findings->has_stacks);
    assert_site(it.findings, 0, "no stack, blocks of 3.06 GiB");
    end(it);
    it = find_with("ring_overflow_1000_entries", 0);
    int64_t older = 0;
    while (!it.findings->sites[older].is_older)
        older++;
    assert_site(it.findings, older, "from before recording began");
    end(it);
}

/* ---- steps and leaks ---- */

static void steps_are_the_optimizers(void **state)
{
    (void)state;
    found it = find_with("gpt_dynamic_length_60_steps", 0);
    assert_int_equal(it.findings->step_source, PLM_STEPS_OPTIMIZER);
    assert_int_equal(it.findings->step_count, 60);
    assert_int_equal(it.findings->leak_count, 0); /* lengths change, nothing is kept */
    end(it);
}

static void kept_losses_are_a_leak_at_their_line(void **state)
{
    (void)state;
    found it = find_with("mlp_leak_loss_history_40_steps", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_LEAK);
    assert_int_equal(it.findings->leak_count, 1);
    const plm_leak *leak = it.findings->leaks;
    assert_site(it.findings, leak->place, "leak snapshots_torch.py:87");
    assert_int_equal(leak->steps, 39);
    assert_int_equal(leak->since_step, 0);
    /* 17 blocks of 1 MiB and the loss itself, in a block of 512 bytes, each step */
    assert_int_equal(leak->bytes_a_step, 17 * MIB + 512);
    end(it);
}

/* A history of `steps` steps without annotations: one block comes and goes in each, `kept` says
 * what a step leaves behind. */
static plm_snapshot *stepping(int steps, size_t (*kept)(int step))
{
    plm_text text = {0};
    uint64_t address = 1 << 20;
    plm__text_add(&text, "{\"device_traces\": [[");
    for (int step = 0; step < steps; step++) {
        plm__text_add(&text,
                      "%s{\"action\": \"alloc\", \"addr\": 512, \"size\": 3000000},"
                      "{\"action\": \"free_requested\", \"addr\": 512, \"size\": 3000000},"
                      "{\"action\": \"free_completed\", \"addr\": 512, \"size\": 3000000}",
                      step > 0 ? "," : "");
        if (kept(step) > 0)
            plm__text_add(&text, ",{\"action\": \"alloc\", \"addr\": %llu, \"size\": %zu}",
                          (unsigned long long)address, kept(step));
        address += 64 * MIB;
    }
    plm__text_add(&text, "]]}");
    assert_ok(plm__text_status(&text));
    plm_snapshot *snapshot = read_json(text.items);
    plm__text_fini(&text);
    return snapshot;
}

static size_t keeps_each(int step)
{
    (void)step;
    return MIB;
}

static size_t keeps_at_first(int step)
{
    return step < 12 ? MIB : 0;
}

static size_t keeps_late(int step)
{
    return step >= 16 ? 2 * MIB : 0;
}

static void a_leak_is_steady_growth_and_not_a_warm_up(void **state)
{
    (void)state;
    static const struct {
        int steps;
        size_t (*kept)(int step);
        int64_t leaks, since;
    } cases[] = {{40, keeps_each, 1, 0},
                 {40, keeps_at_first, 0, 0},
                 {40, keeps_late, 1, 16},
                 {6, keeps_each, 0, 0}}; /* too few to say */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        found it = {stepping(cases[i].steps, cases[i].kept), NULL};
        assert_ok(find_in(it.snapshot, (plm_findings_options){0}, &it.findings));
        assert_int_equal(it.findings->step_source, PLM_STEPS_PERIOD);
        assert_int_equal(it.findings->step_count, cases[i].steps);
        assert_int_equal(it.findings->leak_count, cases[i].leaks);
        if (cases[i].leaks)
            assert_int_equal(it.findings->leaks[0].since_step, cases[i].since);
        end(it);
    }
}

/* ---- fragments, spikes, waits ---- */

static void free_memory_is_releasable_or_pinned(void **state)
{
    (void)state;
    static const char *const names[] = {
        "cat_spike",
        "fragmented_cap2g_700m_request",
        "gpt_dynamic_length_60_steps",
        "gpt_dynamic_length_expandable",
        "no_history_recorded",
        "pending_free_two_streams",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found it = find_with(names[i], 0);
        const plm_fragments *fragments = &it.findings->fragments;
        const plm_snapshot_device *device = it.findings->device;
        assert_int_equal(fragments->reserved_bytes, device->reserved_bytes);
        assert_int_equal(fragments->allocated_bytes, device->allocated_bytes);
        assert_int_equal(fragments->active_bytes, device->active_bytes);
        assert_int_equal(fragments->largest_free_bytes, device->largest_free_bytes);
        assert_int_equal(fragments->pinned_bytes + fragments->releasable_bytes,
                         fragments->cached_bytes);
        size_t pinned = 0;
        for (int64_t k = 0; k < fragments->pin_count; k++)
            pinned += fragments->pins[k].free_bytes;
        assert_int_equal(pinned, fragments->pinned_bytes);
        if (device->pending_free_blocks == 0 && strstr(names[i], "expandable") == NULL)
            assert_int_equal(fragments->pinned_bytes, device->inactive_split_bytes);
        end(it);
    }
}

static void the_concatenation_is_the_spike(void **state)
{
    (void)state;
    found it = find_with("cat_spike", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_SPIKE);
    const plm_spike *spike = it.findings->spikes;
    assert_int_equal(spike->bytes, 3221225472);
    assert_site(it.findings, spike->place, "catspike snapshots_torch.py:161");
    assert_int_equal(spike->peak_without_bytes, 12884915200 - 3221225472);
    end(it);
}

static void nineteen_blocks_wait_for_another_stream(void **state)
{
    (void)state;
    found it = find_with("pending_free_two_streams", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_WAITS);
    assert_int_equal(it.findings->wait_count, 1);
    assert_int_equal(it.findings->waits[0].blocks, 19);
    assert_int_equal(it.findings->waits[0].bytes, 1314848768 - 674201600);
    assert_site(it.findings, it.findings->waits[0].place, "pending snapshots_torch.py:120");
    end(it);
}

static void changing_lengths_fragment(void **state)
{
    (void)state;
    found it = find_with("gpt_dynamic_length_60_steps", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_FRAGMENTATION);
    end(it);
    it = find_with("gpt_dynamic_length_expandable", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_NONE);
    end(it);
}

/* ---- what is not known ---- */

static void a_missing_or_cut_history_is_told(void **state)
{
    (void)state;
    found it = find_with("no_history_recorded", 0);
    assert_int_equal(it.findings->verdict, PLM_VERDICT_NO_HISTORY);
    assert_int_equal(it.findings->reserved_peak_bytes, 0);
    assert_false(it.findings->peaks_are_whole);
    end(it);
    it = find_with("ring_overflow_1000_entries", 0);
    assert_false(it.findings->peaks_are_whole);
    assert_int_equal(it.findings->allocated_peak_bytes, 120688640);
    end(it);
    it = find_with("cat_spike", 0);
    assert_true(it.findings->peaks_are_whole);
    end(it);
}

static void a_record_gives_the_peaks_and_the_capacity(void **state)
{
    (void)state;
    plm_memory_record record;
    found it = {NULL, NULL};
    assert_ok(plm_memory_record_read(RECORDINGS "fsdp2_rank1.json", 1, &record));
    assert_ok(plm_snapshot_read(RECORDINGS "fsdp2_rank1.pickle.xz", &it.snapshot));
    assert_ok(find_in(it.snapshot, (plm_findings_options){.record = &record}, &it.findings));
    assert_true(it.findings->peaks_are_whole);
    assert_int_equal(it.findings->allocated_peak_bytes, 7118824448);
    assert_int_equal(it.findings->capacity_bytes, 150109880320);
    assert_int_equal(it.findings->replayed.allocated_peak_bytes, 7118824448);
    end(it);
}

/* ---- other programs ---- */

static void add_event(plm_trace *trace, int64_t time, plm_event_kind kind, int64_t block,
                      int32_t owner)
{
    plm_event event = {.kind = kind,
                       .time = time,
                       .block = block,
                       .address = (uint64_t)(block + 1) * MIB,
                       .bytes_asked = MIB,
                       .bytes_taken = MIB,
                       .owner = owner};
    assert_ok(plm__trace_add_event(trace, &event));
}

/* 20 steps of a program that is not PyTorch: one line keeps a MiB of each step, another gives its
 * two back. */
static void a_log_of_another_program_is_diagnosed_by_the_same_code(void **state)
{
    (void)state;
    static const plm_snapshot_settings settings = {.text = "", .max_split_bytes = SIZE_MAX};
    plm_trace *trace = NULL;
    uint32_t kept, used;
    int32_t keeper, user;
    assert_ok(plm__trace_create(&trace));
    assert_ok(plm__trace_intern(trace, "losses.append main.c:7", &kept));
    assert_ok(plm__trace_intern(trace, "forward main.c:5", &used));
    plm_owner owner = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
    owner.op = kept;
    assert_ok(plm__trace_add_owner(trace, &owner, &keeper));
    owner.op = used;
    assert_ok(plm__trace_add_owner(trace, &owner, &user));
    for (int64_t step = 0; step < 20; step++) {
        add_event(trace, 5 * step, PLM_EVENT_BLOCK_ALLOC, 3 * step, user);
        add_event(trace, 5 * step + 1, PLM_EVENT_BLOCK_ALLOC, 3 * step + 1, user);
        add_event(trace, 5 * step + 2, PLM_EVENT_BLOCK_ALLOC, 3 * step + 2, keeper);
        add_event(trace, 5 * step + 3, PLM_EVENT_BLOCK_FREE, 3 * step + 1, user);
        add_event(trace, 5 * step + 4, PLM_EVENT_BLOCK_FREE, 3 * step, user);
    }
    plm_snapshot_device device = {.trace = trace,
                                  .trace_entries = 100,
                                  .history = {.recorded = true, .complete = true},
                                  .settings = &settings};
    plm_findings *findings = NULL;
    assert_ok(plm_findings_create(&device, &(plm_findings_options){0}, &findings));
    assert_int_equal(findings->verdict, PLM_VERDICT_LEAK);
    assert_int_equal(findings->leaks[0].bytes_a_step, MIB);
    char site[PLM_CALL_SITE_TEXT];
    assert_string_equal(plm_call_site_text(findings, findings->leaks[0].place, site),
                        "losses.append main.c:7");
    plm_findings_destroy(findings);
    plm_trace_destroy(trace);
}

static void findings_leave_their_source_as_it_was(void **state)
{
    (void)state;
    plm_snapshot *snapshot = NULL;
    plm_findings *findings = NULL;
    assert_ok(plm_snapshot_read(SNAPSHOTS "cat_spike.pickle.xz", &snapshot));
    const plm_snapshot_device *device = first_device(snapshot);
    size_t asked = plm_trace_find_peak(device->trace).bytes_taken;
    assert_ok(plm_findings_create(device, &(plm_findings_options){0}, &findings));
    assert_int_equal(plm_trace_find_peak(device->trace).bytes_taken, asked);
    assert_false(findings->replayed.is_replayed);
    plm_findings_destroy(findings);
    plm_snapshot_destroy(snapshot);
}

/* ---- verdicts ---- */

static void enough_in_pieces_is_fragmentation(void **state)
{
    (void)state;
    static const size_t capacities[] = {0, 2 * GIB};
    for (size_t i = 0; i < 2; i++) {
        found it = find_with("fragmented_cap2g_700m_request", capacities[i]);
        assert_int_equal(it.findings->verdict, PLM_VERDICT_FRAGMENTATION);
        assert_int_equal(it.findings->failure_count, 1);
        const plm_failure *failure = it.findings->failures;
        assert_int_equal(failure->verdict, PLM_VERDICT_FRAGMENTATION);
        assert_int_equal(failure->asked_bytes, 734003200);
        assert_string_equal(plm_trace_text(it.findings->device->trace, failure->site),
                            "frag snapshots_torch.py:111");
        assert_true(failure->limited);
        assert_true(failure->limit_least_bytes <= 2 * GIB);
        assert_true(failure->limit_most_bytes >= 2 * GIB);
        /* 459 MB are free, the largest piece has 56 MB; each segment names what pins it */
        assert_int_equal(failure->then.cached_bytes, 459153408);
        assert_int_equal(failure->then.largest_free_bytes, 55582720);
        assert_int_equal(failure->then.pin_count, 10);
        int64_t count;
        const plm_event *events = plm_trace_events(it.findings->device->trace, &count);
        for (int64_t k = 0; k < failure->then.pin_count; k++) {
            assert_true(failure->then.pins[k].event >= 0);
            assert_int_equal(events[failure->then.pins[k].event].kind, PLM_EVENT_BLOCK_ALLOC);
        }
        assert_non_null(strstr(failure->remedy, "mapped"));
        end(it);
    }
}

static void a_step_that_does_not_fit_is_capacity(void **state)
{
    (void)state;
    static const struct {
        size_t capacity;
        plm_verdict verdict;
    } cases[] = {{0, PLM_VERDICT_CAPACITY},
                 {12 * GIB, PLM_VERDICT_CAPACITY},
                 {140 * GIB, PLM_VERDICT_LIMIT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        found it = find_with("gpt350m_amp_b4_t2048_cap12g", cases[i].capacity);
        const plm_failure *failure = it.findings->failures;
        assert_int_equal(failure->verdict, cases[i].verdict);
        assert_int_equal(failure->wants_capacity, cases[i].capacity == 0);
        assert_site(it.findings, failure->top_place, "forward gpt_torch.py:29");
        assert_int_equal(failure->then.active_bytes, 11556886528);
        if (failure->verdict == PLM_VERDICT_CAPACITY)
            assert_non_null(strstr(failure->remedy, "gpt_torch.py:29"));
        end(it);
    }
}

/* One live block of 100 MiB in a segment, then a failure. */
static plm_failure made_up_failure(size_t asked, size_t device_free, size_t capacity)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"segments\": [{\"device\": 0, \"address\": 2097152, \"total_size\": 104857600, "
             "\"segment_type\": \"large\", \"blocks\": [{\"address\": 2097152, \"size\": "
             "104857600, \"requested_size\": 104857600, \"state\": \"active_allocated\"}]}], "
             "\"device_traces\": [[{\"action\": \"segment_alloc\", \"addr\": 2097152, \"size\": "
             "104857600}, {\"action\": \"alloc\", \"addr\": 2097152, \"size\": 104857600}, "
             "{\"action\": \"oom\", \"size\": %zu, \"device_free\": %zu}]]}",
             asked, device_free);
    found it = {read_json(text), NULL};
    assert_ok(
        find_in(it.snapshot, (plm_findings_options){.capacity_bytes = capacity}, &it.findings));
    assert_int_equal(it.findings->failure_count, 1);
    plm_failure failure = it.findings->failures[0];
    end(it);
    return failure;
}

static void the_figures_decide_the_verdict(void **state)
{
    (void)state;
    /* 150 MiB asked of a device of 80 GiB with 10 MiB left: others hold it. */
    assert_int_equal(made_up_failure(150 * MIB, 100 * MIB, 80 * GIB).verdict,
                     PLM_VERDICT_OTHER_PROCESS);
    /* The same without a capacity: this process could have no more, which is not all. */
    plm_failure unsure = made_up_failure(150 * MIB, 100 * MIB, 0);
    assert_int_equal(unsure.verdict, PLM_VERDICT_CAPACITY);
    assert_true(unsure.wants_capacity);
    /* A shape gone wrong. */
    assert_int_equal(made_up_failure(400 * GIB, 70 * GIB, 80 * GIB).verdict, PLM_VERDICT_TOO_LARGE);
    unsure = made_up_failure(400 * GIB, 70 * GIB, 0);
    assert_int_equal(unsure.verdict, PLM_VERDICT_TOO_LARGE);
    assert_true(unsure.wants_capacity);
    /* The driver has plenty: a limit. */
    assert_int_equal(made_up_failure(150 * MIB, 70 * GIB, 80 * GIB).verdict, PLM_VERDICT_LIMIT);
    /* A device that is full of this process. */
    assert_int_equal(made_up_failure(1000 * MIB, 700 * MIB, 1900 * MIB).verdict,
                     PLM_VERDICT_CAPACITY);
}

static void findings_without_host_memory_fail_cleanly(void **state)
{
    (void)state;
    static const char *const names[] = {"fragmented_cap2g_700m_request",
                                        "pending_free_two_streams"};
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        plm_snapshot *snapshot = NULL;
        snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", names[i]);
        assert_ok(plm_snapshot_read(path, &snapshot));
        for (int64_t n = 1;; n++) {
            plm_findings *findings = NULL;
            plm__host_fail_at(n, n % 2 == 0);
            plm_status status = find_in(snapshot, (plm_findings_options){0}, &findings);
            bool fired = plm__host_fail_at(0, false);
            plm_findings_destroy(findings);
            if (!fired) {
                assert_ok(status);
                break;
            }
            assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
            assert_null(findings);
        }
        plm_snapshot_destroy(snapshot);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_add_up_to_the_peak_and_to_the_end),
        cmocka_unit_test(library_frames_are_folded_into_the_users_line),
        cmocka_unit_test(blocks_without_a_stack_are_told_apart_by_size),
        cmocka_unit_test(steps_are_the_optimizers),
        cmocka_unit_test(kept_losses_are_a_leak_at_their_line),
        cmocka_unit_test(a_leak_is_steady_growth_and_not_a_warm_up),
        cmocka_unit_test(free_memory_is_releasable_or_pinned),
        cmocka_unit_test(the_concatenation_is_the_spike),
        cmocka_unit_test(nineteen_blocks_wait_for_another_stream),
        cmocka_unit_test(changing_lengths_fragment),
        cmocka_unit_test(a_missing_or_cut_history_is_told),
        cmocka_unit_test(a_record_gives_the_peaks_and_the_capacity),
        cmocka_unit_test(enough_in_pieces_is_fragmentation),
        cmocka_unit_test(a_step_that_does_not_fit_is_capacity),
        cmocka_unit_test(a_log_of_another_program_is_diagnosed_by_the_same_code),
        cmocka_unit_test(findings_leave_their_source_as_it_was),
        cmocka_unit_test(the_figures_decide_the_verdict),
        cmocka_unit_test(findings_without_host_memory_fail_cleanly),
    };
    return run_test_group(tests);
}
