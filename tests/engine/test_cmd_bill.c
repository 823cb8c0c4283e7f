/* SPDX-License-Identifier: MIT */
/* plimsoll bill from outside: figures, budgets, refusals. */
#include <math.h>

#include "base/json.h"
#include "plimsoll/device_profile.h"
#include "plimsoll/strategy.h"
#include "unit/program.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=16,vocab=40"

static void a_gpt2_bill_has_its_known_figures(void **state)
{
    (void)state;
    json_t *root =
        run_json("bill", "gpt2 --batch 8 --seq 1024 --precision fp32 --attention plain", 0);
    assert_int_equal(json_number(root, "parameters_bytes"), 4 * 124439808);
    assert_int_equal(json_number(root, "micro_batch"), 8);
    const json_t *live = json_object_get(json_object_get(root, "peak"), "live");
    assert_int_equal(json_number(json_array_get(live, 0), "bytes"), 8LL * 1024 * 50257 * 4);
    assert_int_equal(json_number(json_array_get(live, 1), "bytes"), 384LL << 20);
    json_decref(root);
}

static void a_bert_bill_has_its_known_figures(void **state)
{
    (void)state;
    json_t *root = run_json("bill", "bert-base --batch 16 --seq 512 --precision fp32", 0);
    json_int_t parameters = 4 * 109514298;
    assert_int_equal(json_number(root, "parameter_count"), 109514298);
    assert_int_equal(json_number(root, "parameters_bytes"), parameters);
    assert_int_equal(json_number(root, "gradients_bytes"), parameters);
    assert_int_equal(json_number(root, "optimizer_bytes"), 2 * parameters);
    json_decref(root);
}

/* The answers are those of plans: the gain of the one thing to do is the fall of the peak when it
 * is done, and a place for gradients is held through the step when one micro-batch is all of it. */
static void the_checklist_is_answered_from_plans(void **state)
{
    (void)state;
    static const char *const wanted[2][4] = {{"no", "yes", "yes", "yes"},
                                             {"no", "yes", "no", "yes"}};
    for (int held = 0; held < 2; held++) {
        json_t *root =
            run_json("bill", held ? "gpt2 --batch 8 --micro-batch 4" : "gpt2 --batch 8", 0);
        const json_t *list = json_object_get(root, "checklist");
        assert_int_equal(json_array_size(list), 4);
        for (size_t i = 0; i < 4; i++)
            assert_string_equal(
                json_string_value(json_object_get(json_array_get(list, i), "answer")),
                wanted[held][i]);
        const json_t *activations = json_array_get(list, 1);
        assert_string_equal(json_string_value(json_object_get(activations, "action")),
                            "recompute block in every block");
        json_t *other = run_json("bill",
                                 held ? "gpt2 --batch 8 --micro-batch 4 --recompute block"
                                      : "gpt2 --batch 8 --recompute block",
                                 0);
        assert_int_equal(json_number(activations, "gain_bytes"),
                         json_number(root, "peak_bytes") - json_number(other, "peak_bytes"));
        json_decref(other);
        json_decref(root);
    }
}

static void lighter_gradients_are_treatments_and_answers(void **state)
{
    (void)state;
    static const char *const options[] = {"--gradient bf16", "--update early"};
    static const size_t questions[] = {0, 2}; /* fp32 state, lifetimes */
    json_t *root = run_json("bill", "gpt2 --batch 8 --precision bf16", 0);
    const json_t *list = json_object_get(root, "checklist");
    for (size_t i = 0; i < 2; i++) {
        char line[128];
        const json_t *check = json_array_get(list, questions[i]);
        snprintf(line, sizeof line, "gpt2 --batch 8 --precision bf16 %s", options[i]);
        json_t *other = run_json("bill", line, 0);
        assert_string_equal(json_string_value(json_object_get(check, "answer")), "yes");
        assert_int_equal(json_number(check, "gain_bytes"),
                         json_number(root, "peak_bytes") - json_number(other, "peak_bytes"));
        check = json_array_get(json_object_get(other, "checklist"), questions[i]);
        assert_string_equal(json_string_value(json_object_get(check, "answer")), "no");
        json_decref(other);
    }
    json_decref(root);
}

static void defaults_are_those_of_training(void **state)
{
    (void)state;
    json_t *root = run_json("bill", SMALL, 0);
    assert_int_equal(json_number(root, "batch"), 8);
    assert_int_equal(json_number(root, "micro_batch"), 8);
    assert_int_equal(json_number(root, "sequence"), 16);
    const json_t *strategy = json_object_get(root, "strategy");
    assert_string_equal(json_string_value(json_object_get(strategy, "attention")), "fused");
    assert_string_equal(json_string_value(json_object_get(strategy, "precision")), "fp32");
    assert_true(json_is_null(json_object_get(root, "budget_bytes")));
    json_decref(root);
}

static void the_optimizer_decides_the_moments(void **state)
{
    (void)state;
    json_t *adamw = run_json("bill", SMALL, 0),
           *sgd = run_json("bill", SMALL " --optimizer sgd", 0);
    assert_string_equal(json_string_value(json_object_get(adamw, "optimizer")), "adamw");
    assert_string_equal(json_string_value(json_object_get(sgd, "optimizer")), "sgd");
    json_int_t moment = json_number(sgd, "optimizer_bytes");
    assert_int_equal(moment, json_number(sgd, "parameters_bytes"));
    assert_int_equal(json_number(adamw, "optimizer_bytes"), 2 * moment);
    assert_true(json_number(adamw, "peak_bytes") - json_number(sgd, "peak_bytes") >= moment);
    json_decref(adamw);
    json_decref(sgd);
}

/* What --strategy would take, so that a bill can be asked for again, or trained. */
static void the_strategy_tells_every_choice(void **state)
{
    (void)state;
    json_t *root = run_json("bill", SMALL " --recompute mlp+attention --attention plain", 0);
    const json_t *strategy = json_object_get(root, "strategy");
    assert_string_equal(json_string_value(json_object_get(strategy, "recompute")), "mlp+attention");
    char *text = json_dumps(strategy, JSON_COMPACT);
    plm_strategy read;
    assert_ok(plm_strategy_read("the bill", text, strlen(text), &read));
    plm__host_free(text);
    assert_int_equal(read.attention, PLM_ATTENTION_PLAIN);
    json_decref(root);
}

/* As training has them: a workspace for each. */
static void threads_count_as_in_training(void **state)
{
    (void)state;
    json_t *one = run_json("bill", SMALL " --threads 1", 0),
           *four = run_json("bill", SMALL " --threads 4", 0);
    assert_true(json_number(four, "workspace_bytes") > json_number(one, "workspace_bytes"));
    json_decref(one);
    json_decref(four);
}

static void a_budget_chooses_the_micro_batch(void **state)
{
    (void)state;
    char line[256];
    json_t *whole = run_json("bill", SMALL " --batch 8", 0);
    snprintf(line, sizeof line, SMALL " --batch 8 --recompute none --head-chunks 1 --budget %lldB",
             (long long)json_number(whole, "peak_bytes") - 1);
    json_t *less = run_json("bill", line, 0);
    assert_int_equal(json_number(less, "micro_batch"), 4);
    assert_true(json_number(less, "peak_bytes") < json_number(whole, "peak_bytes"));
    assert_true(json_is_true(json_object_get(less, "fits")));
    json_decref(whole);
    json_decref(less);
}

static void a_budget_that_fits_nothing_gives_the_smallest_plan_and_status_1(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES], wanted[128];
    json_t *root = run_json("bill", SMALL " --batch 8 --budget 4096B", 1);
    assert_int_equal(json_number(root, "micro_batch"), 1);
    assert_true(json_is_false(json_object_get(root, "fits")));
    snprintf(wanted, sizeof wanted, "(%lld bytes), with a micro-batch of 1\n",
             (long long)json_number(root, "peak_bytes"));
    assert_int_equal(run_program("bill " SMALL " --budget 4096B", to_error, output), 1);
    assert_non_null(strstr(output, wanted));
    assert_int_equal(run_program("bill " SMALL " --budget 4096B", to_output, output), 1);
    assert_non_null(strstr(output, "does not fit"));
    json_decref(root);
}

static void a_strategy_file_fixes_the_choices(void **state)
{
    (void)state;
    char path[] = "/tmp/plimsoll-strategy-XXXXXX", line[256];
    static const char text[] = "{\"micro_batch\": 2, \"attention\": \"plain\"}";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    snprintf(line, sizeof line, SMALL " --batch 8 --strategy %s", path);
    json_t *root = run_json("bill", line, 0);
    unlink(path);
    assert_int_equal(json_number(root, "micro_batch"), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "strategy"), "attention")),
        "plain");
    json_decref(root);
}

/* Of MLPs that are kept nothing is cut, and nothing else is said. */
static void chunks_of_mlps_are_told_as_they_came_about(void **state)
{
    (void)state;
    static const struct {
        const char *recompute;
        json_int_t chunks;
    } cases[] = {{"none", 1}, {"act", 1}, {"mlp", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static char output[OUTPUT_BYTES];
        char line[256];
        snprintf(line, sizeof line, SMALL " --batch 8 --mlp-chunks 4 --recompute %s",
                 cases[i].recompute);
        json_t *root = run_json("bill", line, 0);
        assert_int_equal(json_number(json_object_get(root, "strategy"), "mlp_chunks"),
                         cases[i].chunks);
        json_decref(root);
        snprintf(line, sizeof line, "bill " SMALL " --batch 8 --mlp-chunks 4 --recompute %s",
                 cases[i].recompute);
        assert_int_equal(run_program(line, to_output, output), 0);
        for (char *end = strchr(output, '\n'); end; end = strchr(end, '\n'))
            *end = ' '; /* where the line is long */
        assert_int_equal(strstr(output, "MLP in 4 chunks") != NULL, cases[i].chunks > 1);
    }
}

static void a_longer_sequence_enlarges_the_table_with_a_note(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    json_t *root = run_json("bill", SMALL " --seq 20", 0),
           *shorter = run_json("bill", SMALL " --seq 5", 0);
    assert_int_equal(json_number(root, "parameter_count"),
                     json_number(shorter, "parameter_count") + 4 * 32);
    assert_int_equal(run_program("bill " SMALL " --seq 20", to_error, output), 0);
    assert_non_null(strstr(output, "enlarged from 16 to 20"));
    assert_int_equal(run_program("bill " SMALL " --seq 5", to_error, output), 0);
    assert_string_equal(output, "");
    json_decref(root);
    json_decref(shorter);
}

static void a_page_that_is_piped_has_no_escapes(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES];
    assert_int_equal(run_program("bill gpt2 --rows 2", to_output, output), 0);
    assert_null(strchr(output, '\x1b'));
    assert_non_null(strstr(output, "gpt2, 124,439,808 parameters"));
    assert_non_null(strstr(output, "69 smaller rows"));
    assert_int_equal(run_program("bill --help", to_output, output), 0);
    assert_non_null(strstr(output, "plimsoll bill gpt2 --batch 8 --attention plain"));
}

static void a_plan_becomes_a_page_too(void **state)
{
    (void)state;
    char output[OUTPUT_BYTES], line[400], path[128], begins[] = "<!doctype html>";
    snprintf(path, sizeof path, "/tmp/plimsoll-test-bill-%ld.html", (long)getpid());
    snprintf(line, sizeof line, "bill " SMALL " --report %s", path);
    assert_int_equal(run_program(line, to_output, output), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(output, 1, sizeof begins - 1, file), sizeof begins - 1);
    assert_memory_equal(output, begins, sizeof begins - 1);
    fclose(file);
    unlink(path);
}

/* Counters reach the bill's figures; with rates, the slices take as long as they predict. */
static void a_plan_becomes_a_trace_too(void **state)
{
    (void)state;
    static char line[600], rates[128], path[128];
    char output[OUTPUT_BYTES];
    snprintf(path, sizeof path, "/tmp/plimsoll-test-bill-%ld.json", (long)getpid());
    snprintf(rates, sizeof rates, "/tmp/plimsoll-test-rates-%ld.json", (long)getpid());
    assert_ok(
        plm_device_profile_save(&(plm_device_profile){.name = "test",
                                                      .product_flops = {[PLM_DTYPE_F32] = 1e9},
                                                      .bandwidth = 1e9,
                                                      .launch_seconds = 1e-3},
                                rates));
    snprintf(line, sizeof line, SMALL " --trace %s --profile %s", path, rates);
    json_t *bill = run_json("bill", line, 0), *event;
    json_t *trace = json_load_file(path, 0, NULL);
    assert_non_null(trace);
    json_int_t allocated = 0, reserved = 0;
    double shortest = INFINITY, end = 0;
    size_t i;
    json_array_foreach (json_object_get(trace, "traceEvents"), i, event) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        const char *name = json_string_value(json_object_get(event, "name"));
        if (*phase == 'C') {
            json_int_t *most = strcmp(name, "allocated") == 0 ? &allocated : &reserved;
            json_int_t bytes = json_number(json_object_get(event, "args"), "bytes");
            *most = bytes > *most ? bytes : *most;
        } else if (*phase == 'X' && json_integer_value(json_object_get(event, "tid")) == 2) {
            double begin = json_number_value(json_object_get(event, "ts"));
            double length = json_number_value(json_object_get(event, "dur"));
            assert_true(begin >= end - 1e-6);
            end = begin + length;
            shortest = length < shortest ? length : shortest;
        }
    }
    assert_int_equal(allocated, json_number(bill, "lower_bound_bytes"));
    assert_int_equal(reserved, json_number(bill, "peak_bytes"));
    assert_true(shortest >= 1000 && end > 1000 * 50); /* microseconds */
    json_decref(trace);
    json_decref(bill);
    snprintf(line, sizeof line, "bill " SMALL " --trace /dev/null/there");
    assert_int_equal(run_program(line, to_error, output), 2);
    assert_non_null(strstr(output, "/dev/null/there"));
    unlink(path);
    unlink(rates);
}

static void bad_input_is_one_line_and_status_2(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "wanted MODEL"},
        {"gpt7", "unknown model 'gpt7'"},
        {"gpt:layers=2,width=10,heads=3,context=4,vocab=5", "heads that divide the width"},
        {"gpt:layers=2,width=10,heads=2,context=4", "vocab is missing"},
        {SMALL " --batch 0", "--batch"},
        {SMALL " --batch -1", "--batch"},
        {SMALL " --batch 99999999999", "batch of 1 to"},
        {SMALL " --batch 999999999999999999999", "--batch"},
        {SMALL " --batch 12 --micro-batch 5", "divides the batch of 12"},
        {SMALL " --seq 0", "--seq"},
        {SMALL " --seq 99999999999", "sequence of 1 to"},
        {SMALL " --batch 16777216 --seq 268435456", "beyond what can be counted"},
        {SMALL " --precision fp8", "wanted one of fp32|bf16|fp16|auto"},
        {SMALL " --optimizer lion", "wanted one of adamw|sgd"},
        {SMALL " --recompute most", "wanted recompute"},
        {SMALL " --attention flash", "wanted one of fused|plain"},
        {SMALL " --budget lots", "--budget"},
        {SMALL " --budget 0", "--budget"},
        {SMALL " --strategy /nonexistent", "/nonexistent"},
        {SMALL " --bugdet 1GiB", "did you mean --budget?"},
    };
    char output[OUTPUT_BYTES], line[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line, "bill %s", cases[i][0]);
        int status = run_program(line, to_error, output);
        char *last = strstr(output, "enlarged") ? strchr(output, '\n') + 1 : output;
        if (status != 2 || !strstr(last, cases[i][1]) || strchr(last, '\n') != strrchr(last, '\n'))
            fail_msg("%s: status %d, %s", line, status, output);
    }
}

static void precision_and_optimizer_hold_for_pytorch_too(void **state)
{
    (void)state;
    json_t *answer = run_json("bill",
                              PLM_SOURCE_DIR "/tests/data/models/configs/gpt2.json --as torch "
                                             "--precision bf16 --optimizer sgd",
                              0);
    assert_int_equal(json_number(answer, "parameters_bytes"), 2 * 124439808);
    assert_int_equal(json_number(answer, "optimizer_bytes"), 0);
    json_decref(answer);
}

static void a_model_s_files_are_billed_for_serving_or_pytorch(void **state)
{
    (void)state;
    assert_refused("bill", PLM_SOURCE_DIR "/tests/data/models/configs/gpt2.json",
                   "wanted --serve or --as torch for the files of");
    assert_refused("bill", "gpt2 gpt2-medium", "wanted one MODEL, found 2");
    assert_refused("bill", "gpt2 --serve", "'gpt2'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gpt2_bill_has_its_known_figures),
        cmocka_unit_test(a_bert_bill_has_its_known_figures),
        cmocka_unit_test(the_checklist_is_answered_from_plans),
        cmocka_unit_test(lighter_gradients_are_treatments_and_answers),
        cmocka_unit_test(defaults_are_those_of_training),
        cmocka_unit_test(the_optimizer_decides_the_moments),
        cmocka_unit_test(the_strategy_tells_every_choice),
        cmocka_unit_test(threads_count_as_in_training),
        cmocka_unit_test(a_budget_chooses_the_micro_batch),
        cmocka_unit_test(a_budget_that_fits_nothing_gives_the_smallest_plan_and_status_1),
        cmocka_unit_test(a_strategy_file_fixes_the_choices),
        cmocka_unit_test(chunks_of_mlps_are_told_as_they_came_about),
        cmocka_unit_test(a_longer_sequence_enlarges_the_table_with_a_note),
        cmocka_unit_test(a_page_that_is_piped_has_no_escapes),
        cmocka_unit_test(a_plan_becomes_a_page_too),
        cmocka_unit_test(a_plan_becomes_a_trace_too),
        cmocka_unit_test(precision_and_optimizer_hold_for_pytorch_too),
        cmocka_unit_test(a_model_s_files_are_billed_for_serving_or_pytorch),
        cmocka_unit_test(bad_input_is_one_line_and_status_2),
    };
    return run_test_group(tests);
}
