/* SPDX-License-Identifier: MIT */
/*
 * torch/checklist: the four answers on recordings, and on made-up runs for what no recording shows.
 *
 * Figures of recordings were worked out apart from this program, by a reading of the pickles in
 * Python: blocks paired by address, the peak as the largest sum of requested bytes, steps by the
 * annotations, the backward by the frame _make_grads, groups by the innermost frames.
 */
#include "plimsoll/checklist.h"

#include "diagnose/checklist_internal.h"
#include "unit/torch.h"
#include "diagnose/checklist.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"
#define MIB        ((size_t)1 << 20)

typedef struct asked {
    plm_snapshot *snapshot;
    plm_findings *findings;
    plm_checklist *list;
} asked;

static asked ask_snapshot(plm_snapshot *snapshot)
{
    asked it = {.snapshot = snapshot};
    assert_ok(find_in(snapshot, (plm_findings_options){0}, &it.findings));
    assert_ok(plm_checklist_create(it.findings, &it.list));
    return it;
}

static asked ask_file(const char *path)
{
    plm_snapshot *snapshot = NULL;
    assert_ok(plm_snapshot_read(path, &snapshot));
    return ask_snapshot(snapshot);
}

static asked ask(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, SNAPSHOTS "%s.pickle.xz", name);
    return ask_file(path);
}

static void end(asked it)
{
    plm_checklist_destroy(it.list);
    plm_findings_destroy(it.findings);
    plm_snapshot_destroy(it.snapshot);
}

static const plm_checklist_item *check_of(const asked *it, plm_question kind, plm_answer wanted)
{
    const plm_checklist_item *check = &it->list->items[kind];
    static const char *const answers[] = {"cannot be told", "no", "yes"};
    static const plm_answer bad[PLM_QUESTION_COUNT] = {
#define PLM_QUESTION_ROW(name, key, question, yes_is_good)                                         \
    yes_is_good ? PLM_ANSWER_NO : PLM_ANSWER_YES,
        PLM_QUESTION_MAP(PLM_QUESTION_ROW)
#undef PLM_QUESTION_ROW
    };
    if (check->answer != wanted)
        fail_msg("%s: %s, wanted %s: %s", plm_question_key(kind), answers[check->answer],
                 answers[wanted], check->reason);
    assert_true(check->reason[0] && check->basis[0]);
    if (check->answer == bad[kind])
        assert_true(check->action[0]);
    return check;
}

static void assert_figure(const plm_checklist_item *check, const char *what, const char *site,
                          int64_t blocks, size_t bytes)
{
    for (int i = 0; i < check->figure_count; i++) {
        const plm_checklist_figure *figure = &check->figures[i];
        if (strcmp(figure->what, what) != 0 || strcmp(figure->site, site) != 0)
            continue;
        assert_int_equal(figure->blocks, blocks);
        assert_int_equal(figure->bytes, bytes);
        return;
    }
    fail_msg("no figure '%s' at '%s'", what, site);
}

static void assert_has(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("wanted '%s' in: %s", words, text);
}

/* ---- recordings ---- */

/* 292 parameters by Module.to, 1,423,679,488 bytes; of their 8 sizes 7 come back halved in the
 * forward. Line 29 holds 5 x 1 GiB, 5 x 4 MiB and 512 MiB: five layers, all but one of which
 * recompute would free. */
static void an_unfinished_autocast_step_is_fp32_and_keeps_attention(void **state)
{
    (void)state;
    asked it = ask("gpt350m_amp_b4_t2048_cap12g");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_NO);
    assert_figure(check, "parameters", "", 292, 1423679488);
    assert_has(check->reason, "7 of their 8 sizes");
    assert_has(check->reason, "no step ended");
    check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_YES);
    assert_figure(check, "a line of the program", "forward gpt_torch.py:29", 11, 5926551552);
    assert_int_equal(check->gain_bytes, 5926551552 - 5926551552 / 5);
    assert_has(check->reason, "9.37 GiB"); /* 10,064,918,528 bytes */
    assert_has(check->reason, "gpt_torch.py:30 are half as large as those of forward "
                              "gpt_torch.py:29");
    assert_has(check->action, "if the line is a part of attention");
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_UNKNOWN);
    check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_YES);
    end(it);
}

/* 76 tensors of 187,072,512 bytes stand there before the first zero_grad; twice as many bytes, and
 * 76 counters of 4, are made in the first step. The replay's figures are those of test_replay. */
static void without_stacks_instants_tell_state_and_nothing_tells_activations(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt_dynamic_length_60_steps",
                                        "gpt_dynamic_length_expandable"};
    for (int i = 0; i < 2; i++) {
        asked it = ask(names[i]);
        const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_NO);
        assert_figure(check, "parameters", "", 76, 187072512);
        assert_figure(check, "gradients", "", 76, 187072512);
        assert_figure(check, "optimizer state", "", 152, 2 * 187072512);
        assert_has(check->reason, "16 bytes a parameter");
        check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_UNKNOWN);
        check = check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_NO);
        assert_true((check->gain_bytes > 0) == (i == 0));
        end(it);
    }
}

static void the_allocators_answer_names_the_best_setting_by_replay(void **state)
{
    (void)state;
    asked it = ask("gpt_dynamic_length_60_steps");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_NO);
    plm_replay_case wanted = {.settings = "expandable_segments:True"};
    plm_replay_result result;
    assert_ok(plm_replay_run(first_device(it.snapshot), &wanted, &result));
    assert_int_equal(check->gain_bytes, 45759856640 - result.reserved_peak_bytes);
    assert_has(check->action, "expandable_segments:True");
    end(it);
    it = ask("fragmented_cap2g_700m_request");
    check = check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_NO);
    assert_has(check->reason, "a request of 700.0 MiB failed");
    end(it);
}

/* Rank 0's shards: 306,663,424 bytes in 100 tensors, gradients of the same bytes in 9 flat blocks.
 * 165 blocks, 2,574,598,276 bytes, of the second forward live on when its backward begins; two are
 * cross_entropy's. */
static void shards_of_fsdp_are_told_with_their_gradients_and_logits(void **state)
{
    (void)state;
    asked it = ask_file(RECORDINGS "fsdp2_rank0.pickle.xz");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_NO);
    assert_figure(check, "parameters", "", 100, 306663424);
    assert_figure(check, "gradients", "", 9, 306663424);
    assert_figure(check, "optimizer state", "", 200, 613326848);
    check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_YES);
    assert_figure(check, "loss", "forward gpt_torch.py:47", 2, 824180740);
    assert_int_equal(check->gain_bytes, 824180740 - 824180740 / 8);
    assert_has(check->reason, "2.40 GiB");
    assert_has(check->action, "in chunks");
    end(it);
}

/* 684 blocks of the program, 677,380,248 bytes, were made after the first step, outlived their own
 * and are never freed; 18 of 17,825,796 bytes are of the step that holds the peak. */
static void losses_that_are_kept_are_lifetimes_and_not_activations(void **state)
{
    (void)state;
    asked it = ask("mlp_leak_loss_history_40_steps");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    assert_figure(check, "more after every step", "leak snapshots_torch.py:87", 684, 677380248);
    assert_has(check->action, ".item()");
    assert_true(check->gain_bytes > 677380248 && check->gain_bytes < 680000000);
    check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_NO);
    assert_has(check->reason, "17.0 MiB");
    assert_has(check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN)->reason,
               "optimizer keeps no state");
    end(it);
}

static void a_spike_and_waiting_blocks_are_lives_that_are_too_long(void **state)
{
    (void)state;
    asked it = ask("cat_spike");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    assert_int_equal(check->gain_bytes, 3221225472); /* truth.json: spike_bytes */
    check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN);
    check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_UNKNOWN);
    check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_YES);
    end(it);
    it = ask("pending_free_two_streams");
    check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    /* 18 blocks had been let go by the peak, and were not free. */
    assert_figure(check, "freed, waiting for a stream", "pending snapshots_torch.py:120", 18,
                  606781440);
    end(it);
}

/* Of blocks that are older than the history, those that still live have their stacks: 20
 * parameters, 40 moments. Their types cannot be told. */
static void a_history_that_overflowed_still_tells_ratios(void **state)
{
    (void)state;
    asked it = ask("ring_overflow_1000_entries");
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN);
    assert_figure(check, "parameters", "", 20, 10506240);
    assert_figure(check, "gradients", "", 20, 10506240);
    assert_figure(check, "optimizer state", "", 40, 21012480);
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_UNKNOWN);
    end(it);
}

static void without_a_history_nothing_can_be_told(void **state)
{
    (void)state;
    asked it = ask("no_history_recorded");
    for (int i = 0; i < PLM_QUESTION_COUNT; i++)
        assert_int_equal(check_of(&it, (plm_question)i, PLM_ANSWER_UNKNOWN)->gain_bytes, 0);
    end(it);
}

/* ---- made-up runs ---- */

/* What a run does beside its parameters of 8 and 4 MiB and a forward that keeps 8 MiB in each of
 * four layers. */
typedef struct made_run {
    bool trains;             /* backward and AdamW follow */
    bool casts;              /* the forward makes halves of the parameters */
    bool casts_one;          /* of the first alone */
    bool holds_gradients;    /* zero_grad comes behind the next forward */
    int gradient_of;         /* parameter k has a gradient alone: k + 1; 0: each has one */
    bool holds_output;       /* the forward's result lives until the next one's */
    bool holds_copy;         /* the parameters were loaded and stay loaded */
    bool peaks_in_optimizer; /* temporaries of 60 MiB */
    bool accumulates;        /* two micro-batches a step */
    bool checkpoints;        /* layers are called through torch.utils.checkpoint */
    size_t state_per_mille;  /* a moment's size, of a parameter's */
} made_run;

typedef struct script {
    plm_text events, notes;
    int time;
} script;

static void event(script *to, const char *action, size_t address, size_t bytes, const char *frames)
{
    plm__text_add(&to->events,
                  "%s{\"action\":\"%s\",\"addr\":%zu,\"size\":%zu,\"stream\":0,\"time_us\":%d,"
                  "\"frames\":[%s]}",
                  to->events.count ? "," : "", action, (address + 1) << 28, bytes, ++to->time,
                  frames);
}

static void make(script *to, size_t address, size_t bytes, const char *frames)
{
    event(to, "segment_alloc", address, (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB), frames);
    event(to, "alloc", address, bytes, frames);
}

static void drop(script *to, size_t address, size_t bytes)
{
    event(to, "free_requested", address, bytes, "");
    event(to, "free_completed", address, bytes, "");
    event(to, "segment_free", address, (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB), "");
}

static void note(script *to, const char *name, const char *stage)
{
    plm__text_add(&to->notes, "%s{\"name\":\"%s\",\"stage\":\"%s\",\"device\":0,\"time_us\":%d}",
                  to->notes.count ? "," : "", name, stage, ++to->time);
}

#define FRAME(name, file, line)                                                                    \
    "{\"name\":\"" name "\",\"filename\":\"" file "\",\"line\":" #line "}"

static const size_t sizes[2] = {8 * MIB, 4 * MIB};

/* Addresses: a parameter's k, its copy 10 + k, gradient 20 + k, moments 30 + 2k, half 40 + k. */
static void make_each(script *to, size_t first, size_t per_mille, const char *frames)
{
    for (size_t k = 0; k < 2; k++)
        make(to, first + k, sizes[k] / 1000 * per_mille + sizes[k] % 1000 * per_mille / 1000,
             frames);
}

static void drop_each(script *to, size_t first, size_t part)
{
    for (size_t k = 0; k < 2; k++)
        drop(to, first + k, sizes[k] / part);
}

static void make_gradients(script *to, const made_run *run)
{
    for (size_t k = 0; k < 2; k++)
        if (run->gradient_of == 0 || run->gradient_of == (int)k + 1)
            make(to, 20 + k, sizes[k], "");
}

static void drop_gradients(script *to, const made_run *run)
{
    for (size_t k = 0; k < 2; k++)
        if (run->gradient_of == 0 || run->gradient_of == (int)k + 1)
            drop(to, 20 + k, sizes[k]);
}

#define LAYER      FRAME("forward", "model.py", 10)
#define CHECKPOINT FRAME("checkpoint", "torch/utils/checkpoint.py", 1)

static void make_layers(script *to, const made_run *run, int step)
{
    for (size_t layer = 0; layer < 4; layer++)
        make(to, 50 + 4 * (size_t)(step % 2) + layer, 8 * MIB,
             run->checkpoints ? LAYER "," CHECKPOINT : LAYER);
}

static void drop_layers(script *to, int step)
{
    for (size_t layer = 0; layer < 4; layer++)
        drop(to, 50 + 4 * (size_t)(step % 2) + layer, 8 * MIB);
}

static void forward(script *to, const made_run *run, int step)
{
    make_layers(to, run, step);
    if (run->holds_output && step > 0)
        drop_layers(to, step + 1);
    if (run->casts)
        make_each(to, 40, 500, FRAME("forward", "torch/nn/modules/linear.py", 134));
    if (run->casts_one)
        make(to, 40, sizes[0] / 2, FRAME("forward", "torch/nn/modules/linear.py", 134));
}

/* Without gradients, which the first of several makes. */
static void backward(script *to, const made_run *run, int step)
{
    event(to, "segment_alloc", 70, 2 * MIB, "");
    event(to, "alloc", 70, 512, FRAME("_make_grads", "torch/autograd/__init__.py", 231));
    event(to, "free_completed", 70, 512, "");
    event(to, "segment_free", 70, 2 * MIB, "");
    if (!run->holds_output)
        drop_layers(to, step);
}

static void optimizer_step(script *to, const made_run *run, int step)
{
    note(to, "Optimizer.step#AdamW.step", "START");
    if (step == 0)
        for (size_t moment = 0; moment < 2; moment++)
            make_each(to, 30 + 2 * moment, run->state_per_mille,
                      FRAME("_init_group", "torch/optim/adam.py", 178));
    size_t bytes = run->peaks_in_optimizer ? 60 * MIB : 2 * MIB;
    make(to, 80, bytes, FRAME("_multi_tensor_adam", "torch/optim/adam.py", 791));
    drop(to, 80, bytes);
    event(to, "alloc", 81, 512, FRAME("_multi_tensor_adam", "torch/optim/adam.py", 791));
    event(to, "free_completed", 81, 512, "");
    note(to, "Optimizer.step#AdamW.step", "END");
}

static void train_step(script *to, const made_run *run, int step)
{
    forward(to, run, step);
    if (run->holds_gradients && step > 0)
        drop_gradients(to, run);
    if (run->casts)
        drop_each(to, 40, 2);
    if (run->casts_one)
        drop(to, 40, sizes[0] / 2);
    if (!run->trains) {
        drop_layers(to, step);
        return;
    }
    backward(to, run, step);
    make_gradients(to, run);
    if (run->accumulates) {
        forward(to, run, step);
        backward(to, run, step);
    }
    optimizer_step(to, run, step);
    if (!run->holds_gradients)
        drop_gradients(to, run);
}

/* The answers to what was written; the state at the end is not, which a reader allows for. */
static asked ask_script(script *to)
{
    plm_text text = {0};
    plm__text_add(&text, "{\"segments\":[],\"device_traces\":[[%s]],\"external_annotations\":[%s]}",
                  to->events.items, to->notes.count ? to->notes.items : "");
    assert_ok(plm__text_status(&text));
    asked it = ask_snapshot(read_json(text.items));
    plm__text_fini(&text);
    plm__text_fini(&to->events);
    plm__text_fini(&to->notes);
    return it;
}

/* Three steps of it. */
static asked ask_run(made_run run)
{
    script to = {.time = 0};
    make_each(&to, 0, 1000, FRAME("convert", "torch/nn/modules/module.py", 1370));
    if (run.holds_copy)
        make_each(&to, 10, 1000, FRAME("load", "main.py", 3));
    if (run.trains) {
        note(&to, "Optimizer.zero_grad#AdamW.zero_grad", "START");
        note(&to, "Optimizer.zero_grad#AdamW.zero_grad", "END");
    }
    for (int step = 0; step < 3; step++)
        train_step(&to, &run, step);
    return ask_script(&to);
}

static const made_run plain = {.trains = true, .state_per_mille = 1000};

static void types_without_a_sign_are_left_open(void **state)
{
    (void)state;
    asked it = ask_run(plain);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN);
    assert_figure(check, "parameters", "", 2, 12 * MIB);
    assert_figure(check, "optimizer state", "", 4, 24 * MIB);
    assert_has(check->action, "dtype");
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_NO);
    end(it);
}

static void halves_of_the_parameters_prove_fp32(void **state)
{
    (void)state;
    made_run run = plain;
    run.casts = true;
    asked it = ask_run(run);
    assert_has(check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_NO)->reason, "16 bytes a parameter");
    end(it);
    run.trains = false;
    it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_YES);
    assert_int_equal(check->gain_bytes, 6 * MIB);
    assert_has(check->action, "16 bits");
    end(it);
}

static void state_of_twice_the_size_means_16_bit_parameters(void **state)
{
    (void)state;
    made_run run = plain;
    run.state_per_mille = 2000;
    asked it = ask_run(run);
    assert_has(check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_NO)->reason, "parameters of 16 bits");
    end(it);
}

static void a_second_set_of_parameters_is_state_without_need(void **state)
{
    (void)state;
    made_run run = plain;
    run.holds_copy = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_YES);
    assert_int_equal(check->gain_bytes, 12 * MIB);
    assert_figure(check, "the parameters again", "", 2, 12 * MIB);
    end(it);
}

static void gradients_that_stay_for_the_next_forward_are_told(void **state)
{
    (void)state;
    made_run run = plain;
    run.holds_gradients = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    assert_figure(check, "gradients during the forward", "no stack, blocks of 8.0 MiB", 2,
                  12 * MIB);
    assert_has(check->action, "set_to_none");
    end(it);
}

static void a_result_that_outlives_its_step_is_told(void **state)
{
    (void)state;
    made_run run = plain;
    run.holds_output = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    assert_figure(check, "left from an earlier step", "forward model.py:10", 4, 32 * MIB);
    end(it);
}

/* 68 MiB and 512 bytes where the backward begins: 12 of parameters, 24 of moments, 32 kept, the
 * first gradient. Recompute would leave 8 of these, but the optimizer's step needs 50. */
static void a_gain_is_bounded_by_the_next_peak(void **state)
{
    (void)state;
    asked it = ask_run(plain);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_YES);
    assert_figure(check, "a line of the program", "forward model.py:10", 4, 32 * MIB);
    assert_int_equal(check->gain_bytes, 18 * MIB + 512);
    end(it);
}

/* The peak is in the forward of the second micro-batch: gradients are there already. */
static void what_a_later_micro_batch_keeps_is_kept_too(void **state)
{
    (void)state;
    made_run run = plain;
    run.accumulates = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_YES);
    assert_figure(check, "a line of the program", "forward model.py:10", 4, 32 * MIB);
    assert_int_equal(check->gain_bytes, 24 * MIB);
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_NO);
    end(it);
}

static void what_checkpoint_keeps_is_not_to_be_checkpointed(void **state)
{
    (void)state;
    made_run run = plain;
    run.checkpoints = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_ACTIVATIONS, PLM_ANSWER_NO);
    assert_has(check->reason, "torch.utils.checkpoint is in use");
    end(it);
}

static void temporaries_of_the_optimizer_at_the_peak_are_told(void **state)
{
    (void)state;
    made_run run = plain;
    run.peaks_in_optimizer = true;
    asked it = ask_run(run);
    const plm_checklist_item *check = check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    assert_has(check->action, "fused=True");
    end(it);
}

/* ---- thresholds ---- */

static void a_tenth_unused_and_40_mib_are_waste(void **state)
{
    (void)state;
    assert_true(plm__is_waste(1000 * MIB, 900 * MIB));
    assert_false(plm__is_waste(1000 * MIB, 900 * MIB + 1));
    assert_true(plm__is_waste(100 * MIB, 60 * MIB));
    assert_false(plm__is_waste(100 * MIB, 60 * MIB + 1));
    assert_false(plm__is_waste(60 * MIB, 100 * MIB));
}

/* Blocks that wait while 99 MiB make the peak. */
static void a_hundredth_of_the_peak_is_worth_a_word(void **state)
{
    (void)state;
    for (int less = 0; less < 2; less++) {
        script to = {.time = 0};
        size_t bytes = less ? MIB - 512 : MIB;
        make(&to, 0, bytes, "");
        event(&to, "free_requested", 0, bytes, "");
        make(&to, 1, 98 * MIB, "");
        make(&to, 2, MIB, "");
        event(&to, "free_completed", 0, bytes, "");
        asked it = ask_script(&to);
        const plm_checklist_item *check =
            check_of(&it, PLM_QUESTION_LIFETIMES, less ? PLM_ANSWER_UNKNOWN : PLM_ANSWER_YES);
        assert_int_equal(check->gain_bytes, less ? 0 : MIB);
        end(it);
    }
}

/* 8 of 12 MiB of gradients stay, or 4. */
static void gradients_of_half_of_the_parameters_are_told(void **state)
{
    (void)state;
    made_run run = plain;
    run.holds_gradients = true;
    run.gradient_of = 1;
    asked it = ask_run(run);
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_YES);
    end(it);
    run.gradient_of = 2;
    it = ask_run(run);
    check_of(&it, PLM_QUESTION_LIFETIMES, PLM_ANSWER_NO);
    end(it);
}

#define PARAMETER FRAME("convert", "torch/nn/modules/module.py", 1370)

/* Two layers keep 512 KiB each, of which recompute frees one; 9 MiB of parameters but for `less`
 * bytes and 512 bytes of a backward are the rest of the peak. */
static void a_twentieth_of_the_peak_kept_is_worth_recompute(void **state)
{
    (void)state;
    for (int less = 0; less < 2; less++) {
        script to = {.time = 0};
        for (size_t i = 0; i < 18; i++)
            make(&to, i, MIB / 2 - (i == 0 && less ? 512 : 0), PARAMETER);
        make(&to, 20, MIB / 2, LAYER);
        make(&to, 21, MIB / 2, LAYER);
        make(&to, 22, 512, FRAME("_make_grads", "torch/autograd/__init__.py", 231));
        for (size_t i = 20; i < 22; i++)
            drop(&to, i, MIB / 2);
        asked it = ask_script(&to);
        const plm_checklist_item *check =
            check_of(&it, PLM_QUESTION_ACTIVATIONS, less ? PLM_ANSWER_YES : PLM_ANSWER_NO);
        assert_int_equal(check->gain_bytes, less ? MIB / 2 : 0);
        end(it);
    }
}

/* Of so many layers of 2 MiB each two run through torch.utils.checkpoint. */
static void what_is_kept_below_checkpoint_for_its_greater_part_is_left_alone(void **state)
{
    (void)state;
    for (size_t layers = 3; layers <= 4; layers++) {
        script to = {.time = 0};
        make(&to, 0, 2 * MIB, PARAMETER);
        for (size_t i = 0; i < layers; i++)
            make(&to, 20 + i, 2 * MIB, i < 2 ? LAYER "," CHECKPOINT : LAYER);
        make(&to, 30, 512, FRAME("_make_grads", "torch/autograd/__init__.py", 231));
        for (size_t i = 0; i < layers; i++)
            drop(&to, 20 + i, 2 * MIB);
        asked it = ask_script(&to);
        const plm_checklist_item *check =
            check_of(&it, PLM_QUESTION_ACTIVATIONS, layers == 4 ? PLM_ANSWER_YES : PLM_ANSWER_NO);
        assert_int_equal(check->gain_bytes, layers == 4 ? 6 * MIB : 0);
        end(it);
    }
}

static void requests_of_a_mebibyte_are_small_and_larger_ones_are_counted(void **state)
{
    (void)state;
    script to = {.time = 0};
    make(&to, 0, MIB, "");
    make(&to, 1, MIB + 1, "");
    make(&to, 2, 2 * MIB, "");
    asked it = ask_script(&to);
    assert_has(check_of(&it, PLM_QUESTION_ALLOCATOR, PLM_ANSWER_YES)->reason,
               "2 requests above 1 MiB came in 2 sizes");
    end(it);
}

static void halves_of_one_size_alone_prove_nothing(void **state)
{
    (void)state;
    made_run run = plain;
    run.casts_one = true;
    asked it = ask_run(run);
    check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN);
    end(it);
}

static void state_within_5_per_cent_of_twice_the_size_is_twice_the_size(void **state)
{
    (void)state;
    static const struct {
        size_t per_mille;
        plm_answer answer;
    } cases[] = {{1900, PLM_ANSWER_UNKNOWN},
                 {1901, PLM_ANSWER_NO},
                 {2099, PLM_ANSWER_NO},
                 {2101, PLM_ANSWER_UNKNOWN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_run run = plain;
        run.state_per_mille = cases[i].per_mille;
        asked it = ask_run(run);
        check_of(&it, PLM_QUESTION_STATE, cases[i].answer);
        end(it);
    }
}

static void end_step(script *to)
{
    note(to, "Optimizer.step#AdamW.step", "START");
    make(to, 900, 2 * MIB, FRAME("_multi_tensor_adam", "torch/optim/adam.py", 791));
    drop(to, 900, 2 * MIB);
    note(to, "Optimizer.step#AdamW.step", "END");
}

/* All parameters but one of 1 MiB are there twice. */
static void a_second_set_may_lack_a_twentieth(void **state)
{
    (void)state;
    for (size_t count = 19; count <= 20; count++) {
        script to = {.time = 0};
        for (size_t i = 0; i < count; i++)
            make(&to, i, MIB, PARAMETER);
        for (size_t i = 0; i + 1 < count; i++)
            make(&to, 100 + i, MIB, FRAME("load", "main.py", 3));
        end_step(&to);
        asked it = ask_script(&to);
        check_of(&it, PLM_QUESTION_STATE, count == 20 ? PLM_ANSWER_YES : PLM_ANSWER_UNKNOWN);
        end(it);
    }
}

/* Parameters of these sizes, of which the first two have halves in the forward. */
static asked ask_halves(const size_t *bytes, size_t count, bool step_ends)
{
    script to = {.time = 0};
    for (size_t i = 0; i < count; i++)
        make(&to, i, bytes[i], PARAMETER);
    note(&to, "Optimizer.zero_grad#AdamW.zero_grad", "START");
    for (size_t i = 0; i < 2; i++)
        make(&to, 10 + i, bytes[i] / 2, LAYER);
    if (step_ends)
        end_step(&to);
    return ask_script(&to);
}

/* In a whole step half of the bytes, in a part of one half of the sizes. */
static void halves_of_half_of_the_parameters_prove_fp32(void **state)
{
    (void)state;
    static const size_t by_size[] = {MIB, 3 * MIB, 5 * MIB, 7 * MIB, 9 * MIB};
    static const size_t by_bytes[] = {MIB, 3 * MIB, 4 * MIB, 512};
    for (size_t more = 0; more < 2; more++) {
        plm_answer wanted = more ? PLM_ANSWER_UNKNOWN : PLM_ANSWER_NO;
        asked it = ask_halves(by_size, 4 + more, false);
        check_of(&it, PLM_QUESTION_STATE, wanted);
        end(it);
        it = ask_halves(by_bytes, 3 + more, true);
        check_of(&it, PLM_QUESTION_STATE, wanted);
        end(it);
    }
}

/* Beside each moment the optimizer keeps a small block. */
static void state_of_8_bytes_counts_steps_and_more_is_a_moment(void **state)
{
    (void)state;
    for (size_t bytes = 8; bytes <= 9; bytes++) {
        script to = {.time = 0};
        for (size_t i = 0; i < 2; i++)
            make(&to, i, MIB, PARAMETER);
        for (size_t i = 0; i < 2; i++) {
            make(&to, 10 + i, MIB, FRAME("_init_group", "torch/optim/adam.py", 178));
            make(&to, 20 + i, bytes, FRAME("_init_group", "torch/optim/adam.py", 178));
        }
        end_step(&to);
        asked it = ask_script(&to);
        assert_figure(check_of(&it, PLM_QUESTION_STATE, PLM_ANSWER_UNKNOWN), "optimizer state", "",
                      bytes == 8 ? 2 : 4, 2 * MIB + (bytes == 8 ? 0 : 2 * bytes));
        end(it);
    }
}

static void any_failing_allocation_leaves_nothing(void **state)
{
    (void)state;
    plm_snapshot *snapshot = NULL;
    plm_findings *findings = NULL;
    assert_ok(plm_snapshot_read(SNAPSHOTS "cpp_and_python_stacks.pickle.xz", &snapshot));
    assert_ok(find_in(snapshot, (plm_findings_options){0}, &findings));
    for (int persistent = 0; persistent < 2; persistent++)
        for (int64_t n = 1;; n++) {
            plm_checklist *list = NULL;
            plm__host_fail_at(n, persistent != 0);
            plm_status status = plm_checklist_create(findings, &list);
            bool fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_true(!list == fired);
            plm_checklist_destroy(list);
            if (!fired)
                break;
        }
    plm_findings_destroy(findings);
    plm_snapshot_destroy(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfinished_autocast_step_is_fp32_and_keeps_attention),
        cmocka_unit_test(without_stacks_instants_tell_state_and_nothing_tells_activations),
        cmocka_unit_test(the_allocators_answer_names_the_best_setting_by_replay),
        cmocka_unit_test(shards_of_fsdp_are_told_with_their_gradients_and_logits),
        cmocka_unit_test(losses_that_are_kept_are_lifetimes_and_not_activations),
        cmocka_unit_test(a_spike_and_waiting_blocks_are_lives_that_are_too_long),
        cmocka_unit_test(a_history_that_overflowed_still_tells_ratios),
        cmocka_unit_test(without_a_history_nothing_can_be_told),
        cmocka_unit_test(types_without_a_sign_are_left_open),
        cmocka_unit_test(halves_of_the_parameters_prove_fp32),
        cmocka_unit_test(state_of_twice_the_size_means_16_bit_parameters),
        cmocka_unit_test(a_second_set_of_parameters_is_state_without_need),
        cmocka_unit_test(gradients_that_stay_for_the_next_forward_are_told),
        cmocka_unit_test(a_result_that_outlives_its_step_is_told),
        cmocka_unit_test(a_gain_is_bounded_by_the_next_peak),
        cmocka_unit_test(what_a_later_micro_batch_keeps_is_kept_too),
        cmocka_unit_test(what_checkpoint_keeps_is_not_to_be_checkpointed),
        cmocka_unit_test(temporaries_of_the_optimizer_at_the_peak_are_told),
        cmocka_unit_test(a_tenth_unused_and_40_mib_are_waste),
        cmocka_unit_test(a_hundredth_of_the_peak_is_worth_a_word),
        cmocka_unit_test(gradients_of_half_of_the_parameters_are_told),
        cmocka_unit_test(a_twentieth_of_the_peak_kept_is_worth_recompute),
        cmocka_unit_test(what_is_kept_below_checkpoint_for_its_greater_part_is_left_alone),
        cmocka_unit_test(requests_of_a_mebibyte_are_small_and_larger_ones_are_counted),
        cmocka_unit_test(halves_of_one_size_alone_prove_nothing),
        cmocka_unit_test(state_within_5_per_cent_of_twice_the_size_is_twice_the_size),
        cmocka_unit_test(a_second_set_may_lack_a_twentieth),
        cmocka_unit_test(halves_of_half_of_the_parameters_prove_fp32),
        cmocka_unit_test(state_of_8_bytes_counts_steps_and_more_is_a_moment),
        cmocka_unit_test(any_failing_allocation_leaves_nothing),
    };
    return run_test_group(tests);
}
