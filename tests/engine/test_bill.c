/* SPDX-License-Identifier: MIT */
/*
 * Bills: what they say of plans, checked against the trace and against figures known by hand, and
 * how they are written for people and for programs.
 */
#include "base/json.h"
#include "plimsoll/plan_report.h"
#include "engine/fake_plan.h"
#include "trace/trace.h"

#define SMALL "gpt:layers=2,width=32,heads=2,context=16,vocab=40"

enum { PRODUCT_BYTES = 1 << 20, OVERHEAD_BYTES = 5000 };

/* The bill of a description held at once, for a device that is not there. */
static plm_bill *bill_of(const char *description, int64_t batch, plm_attention_form form,
                         size_t budget)
{
    fake_device device = fake_device_make(PRODUCT_BYTES, OVERHEAD_BYTES);
    plm_plan *plan = plan_of(description, batch, batch, form, &device);
    plm_bill *bill = NULL;
    assert_ok(plm_plan_bill(plan, description, budget, &bill));
    plm_plan_destroy(plan);
    return bill;
}

static const plm_event *event_of(const plm_bill *bill, int64_t index)
{
    int64_t count;
    return &plm_trace_events(bill->trace, &count)[index];
}

static const plm_owner *owner_of(const plm_bill *bill, int64_t index)
{
    int64_t count;
    return &plm_trace_owners(bill->trace, &count)[event_of(bill, index)->owner];
}

static const char *text_of(const plm_bill *bill, uint32_t id)
{
    return plm_trace_text(bill->trace, id);
}

/* ---- what it says -------------------------------------------------------------------------- */

static void live_blocks_and_padding_add_up_to_the_lower_bound(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        plm_bill *bill = bill_of(SMALL ",dropout=0.1", 3, (plm_attention_form)form, 0);
        size_t sum = 0, roles = 0;
        for (int64_t i = 0; i < bill->live_count; i++) {
            sum += event_of(bill, bill->live[i])->bytes_asked;
            if (i > 0)
                assert_true(event_of(bill, bill->live[i])->bytes_asked <=
                            event_of(bill, bill->live[i - 1])->bytes_asked);
        }
        for (int role = 0; role < PLM_ROLE_COUNT; role++) {
            roles += bill->at_peak_bytes[role];
            assert_true(bill->at_peak_bytes[role] <= bill->role_bytes[role]);
        }
        assert_int_equal(roles, sum);
        assert_int_equal(sum + bill->padding_bytes, bill->plan.lower_bound_bytes);
        assert_int_equal(bill->live_bytes, bill->plan.lower_bound_bytes);
        assert_true(bill->padding_bytes > 0);
        plm_bill_destroy(bill);
    }
}

/* Biases of 8, 24 and 48 elements end within a granule of one type and at the end of one of
 * another: what lies between two parameters is padding of the wider ones. */
static void bills_of_16_bit_weights_of_any_width_add_up(void **state)
{
    (void)state;
    static const int widths[] = {8, 24, 48, 64};
    for (int i = 0; i < 4 * 6; i++) {
        char text[96];
        snprintf(text, sizeof text, "gpt:layers=1,width=%d,heads=2,context=7,vocab=33",
                 widths[i % 4]);
        fake_device device = fake_device_make(PRODUCT_BYTES, 0);
        plm_model model;
        assert_ok(plm_model_parse(text, &model));
        plm_job job = job_of(&model, 2, 7);
        plm_strategy strategy = strategy_of(2, PLM_ATTENTION_FUSED);
        strategy.precision = i / 4 % 2 ? PLM_DTYPE_BF16 : PLM_DTYPE_F16;
        strategy.gradient = i / 4 == 3 ? PLM_DTYPE_BF16 : PLM_DTYPE_F32;
        strategy.update = i / 4 == 5 ? PLM_UPDATE_EARLY : PLM_UPDATE_LATE;
        plm_plan *plan = NULL;
        plm_bill *bill = NULL;
        assert_ok(plm_plan_create(&job, &strategy, &device.head, &plan));
        assert_ok(plm_plan_bill(plan, text, 0, &bill));
        size_t asked = 0;
        for (int role = 0; role < PLM_ROLE_COUNT; role++)
            asked += bill->at_peak_bytes[role];
        assert_int_equal(asked + bill->padding_bytes, bill->plan.lower_bound_bytes);
        plm_bill_destroy(bill);
        plm_plan_destroy(plan);
    }
}

static void states_are_four_bytes_a_parameter_each(void **state)
{
    (void)state;
    plm_bill *bill = bill_of("gpt2", 1, PLM_ATTENTION_FUSED, 0);
    assert_int_equal(bill->role_bytes[PLM_ROLE_PARAMETER], 4 * 124439808UL);
    assert_int_equal(bill->role_bytes[PLM_ROLE_GRADIENT], 4 * 124439808UL);
    assert_int_equal(bill->role_bytes[PLM_ROLE_OPTIMIZER], 8 * 124439808UL);
    assert_int_equal(bill->role_bytes[PLM_ROLE_MASTER], 0);
    plm_bill_destroy(bill);
}

/* The largest [batch,heads,T,T] that is live at the peak; *count how many are as large. */
static size_t probabilities(const plm_bill *bill, int64_t length, int64_t *count)
{
    size_t bytes = 0;
    *count = 0;
    for (int64_t i = 0; i < bill->live_count; i++) {
        const plm_owner *owner = owner_of(bill, bill->live[i]);
        if (owner->rank != 4)
            continue;
        assert_int_equal(owner->shape[0], 8);
        assert_int_equal(owner->shape[1], 12);
        assert_int_equal(owner->shape[2], length);
        assert_int_equal(owner->shape[3], length);
        assert_string_equal(text_of(bill, owner->name), "probabilities");
        assert_string_equal(text_of(bill, owner->op), "softmax");
        assert_string_equal(text_of(bill, owner->kept_for[0]) + strlen("block.0"),
                            " softmax gradient");
        assert_string_equal(text_of(bill, owner->kept_for[1]) + strlen("block.0"),
                            " attention gradient");
        bytes = event_of(bill, bill->live[i])->bytes_asked;
        ++*count;
    }
    return bytes;
}

static void the_attention_matrix_grows_with_the_square_of_the_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {512, 1024, 2048};
    size_t bytes[3];
    for (int i = 0; i < 3; i++) {
        char description[96];
        int64_t count;
        snprintf(description, sizeof description,
                 "gpt:layers=3,width=768,heads=12,context=%d,vocab=50257", (int)lengths[i]);
        plm_bill *bill = bill_of(description, 8, PLM_ATTENTION_PLAIN, 0);
        bytes[i] = probabilities(bill, lengths[i], &count);
        assert_int_equal(count, 3); /* one in each layer */
        plm_bill_destroy(bill);
    }
    assert_int_equal(bytes[1], 384UL << 20);
    assert_int_equal(bytes[2], 16 * bytes[0]);
}

static void fused_attention_never_holds_the_matrix(void **state)
{
    (void)state;
    int64_t count;
    plm_bill *bill = bill_of("gpt2", 8, PLM_ATTENTION_FUSED, 0);
    const plm_owner *owners = plm_trace_owners(bill->trace, &count);
    for (int64_t i = 0; i < count; i++)
        assert_true(owners[i].rank < 4);
    plm_bill_destroy(bill);
}

static void the_peak_is_told_with_program_layer_and_operation(void **state)
{
    (void)state;
    plm_bill *bill = bill_of("gpt2", 8, PLM_ATTENTION_FUSED, 0);
    assert_string_equal(bill->at, "first: head token linear");
    const plm_owner *logits = owner_of(bill, bill->live[0]);
    assert_string_equal(text_of(bill, logits->name), "logits");
    assert_string_equal(text_of(bill, logits->layer), "head");
    assert_string_equal(text_of(bill, logits->made_by), "head token linear");
    assert_string_equal(text_of(bill, logits->kept_for[0]), "head cross entropy gradient");
    assert_int_equal(logits->kept_for[1], 0);
    assert_true(bill->largest_temporary >= 0);
    assert_int_equal(event_of(bill, bill->largest_temporary)->bytes_asked, 8UL * 1024 * 50257 * 4);
    plm_bill_destroy(bill);
}

/* What the forward makes and the backward reads is an activation, what the backward makes is not.
 */
static void roles_tell_what_is_kept_from_what_passes(void **state)
{
    (void)state;
    plm_bill *bill = bill_of(SMALL, 2, PLM_ATTENTION_PLAIN, 0);
    int64_t count, gradients = 0, kept = 0;
    const plm_owner *owners = plm_trace_owners(bill->trace, &count);
    for (int64_t i = 0; i < count; i++) {
        const char *op = text_of(bill, owners[i].op);
        bool backward = strstr(op, "gradient") != NULL;
        if (backward && owners[i].role != PLM_ROLE_WORKSPACE)
            assert_int_equal(owners[i].role, PLM_ROLE_TEMPORARY);
        gradients += backward;
        if (owners[i].role != PLM_ROLE_ACTIVATION)
            continue;
        kept++;
        assert_non_null(strstr(text_of(bill, owners[i].kept_for[0]), "gradient"));
    }
    assert_true(gradients > 0 && kept > 0);
    plm_bill_destroy(bill);
}

static void a_budget_fits_when_it_is_the_peak_and_not_a_byte_less(void **state)
{
    (void)state;
    plm_bill *bill = bill_of(SMALL, 2, PLM_ATTENTION_FUSED, 0);
    size_t peak = bill->plan.peak_bytes;
    assert_true(bill->fits);
    plm_bill_destroy(bill);
    bill = bill_of(SMALL, 2, PLM_ATTENTION_FUSED, peak);
    assert_true(bill->fits);
    plm_bill_destroy(bill);
    bill = bill_of(SMALL, 2, PLM_ATTENTION_FUSED, peak - 1);
    assert_false(bill->fits);
    plm_bill_destroy(bill);
}

/* ---- a trace by hand, and its page --------------------------------------------------------- */

typedef struct block {
    plm_role role;
    const char *layer, *name, *op, *made_by, *kept_for[2];
    int64_t shape[2];
    size_t bytes;
} block;

/* Two layers that each keep an output, a weight, a workspace, and something without a shape. */
static const block blocks[] = {
    {PLM_ROLE_PARAMETER, "block.0", "block.0.up.weight", "", "", {NULL}, {100, 25}, 10000},
    {PLM_ROLE_PARAMETER, "block.1", "block.1.up.weight", "", "", {NULL}, {100, 25}, 10000},
    {PLM_ROLE_ACTIVATION,
     "block.0",
     "output",
     "up linear",
     "block.0 up linear",
     {"block.0 gelu gradient", "head ln gradient"},
     {50, 100},
     20000},
    {PLM_ROLE_ACTIVATION,
     "block.1",
     "output",
     "up linear",
     "block.1 up linear",
     {"block.1 gelu gradient", "head ln gradient"},
     {50, 100},
     20000},
    {PLM_ROLE_INPUT, "", "tokens", "", "", {"embedding embedding"}, {0}, 1000},
    {PLM_ROLE_WORKSPACE, "head", "workspace", "sum", "head sum", {"head sum"}, {0}, 4000},
};

static uint32_t intern(plm_trace *trace, const char *text)
{
    uint32_t id = 0;
    if (text)
        assert_ok(plm__trace_intern(trace, text, &id));
    return id;
}

static void add_block(plm_trace *trace, const block *b, int64_t index)
{
    plm_owner owner = {.name = intern(trace, b->name),
                       .layer = intern(trace, b->layer),
                       .op = intern(trace, b->op),
                       .made_by = intern(trace, b->made_by),
                       .kept_for = {intern(trace, b->kept_for[0]), intern(trace, b->kept_for[1])},
                       .role = (int32_t)b->role,
                       .dtype = b->shape[0] ? PLM_DTYPE_F32 : -1,
                       .rank = b->shape[0] ? 2 : 0,
                       .frames = PLM_TRACE_NO_FRAMES,
                       .shape = {b->shape[0], b->shape[1]}};
    plm_event event = {.time = index,
                       .bytes_asked = b->bytes,
                       .bytes_taken = (b->bytes + 63) / 64 * 64,
                       .block = index,
                       .kind = PLM_EVENT_BLOCK_ALLOC};
    assert_ok(plm__trace_add_owner(trace, &owner, &event.owner));
    assert_ok(plm__trace_add_event(trace, &event));
}

static plm_bill *hand_bill(void)
{
    plm_trace *trace = NULL;
    plm_bill *bill = NULL;
    assert_ok(plm__trace_create(&trace));
    plm_event mark = {.block = -1,
                      .owner = PLM_TRACE_NO_OWNER,
                      .label = intern(trace, "first"),
                      .kind = PLM_EVENT_MARK};
    assert_ok(plm__trace_add_event(trace, &mark));
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        add_block(trace, &blocks[i], (int64_t)i);
    assert_ok(plm_bill_create(trace, &bill));
    return bill;
}

static char *page_of(const plm_bill *bill, plm_report_style style)
{
    char *text = NULL;
    assert_ok(plm_report_bill_text(bill, style, &text));
    return text;
}

static void assert_page_has(const char *page, const char *wanted)
{
    if (!strstr(page, wanted))
        fail_msg("'%s' is not in:\n%s", wanted, page);
}

/* Alike tensors of two layers are one row; the story names no network. */
static void a_trace_by_hand_becomes_this_page(void **state)
{
    (void)state;
    plm_bill *bill = hand_bill();
    char *page = page_of(bill, (plm_report_style){.columns = 90, .rows = 3});
    assert_string_equal(
        page,
        "  role          largest  at the peak    share\n"
        "  ─────────────────────────────────────────────────────────────────\n"
        "  parameters   19.5 KiB     19.5 KiB   30.7 %  ██████▏\n"
        "  inputs         1000 B       1000 B    1.5 %  ▎\n"
        "  activations  39.1 KiB     39.1 KiB   61.3 %  ████████████▎\n"
        "  workspaces    3.9 KiB      3.9 KiB    6.1 %  █▎\n"
        "  padding                      216 B    0.3 %  ▏\n"
        "  ─────────────────────────────────────────────────────────────────\n"
        "  peak                      63.7 KiB  100.0 %\n"
        "\n"
        "The peak is in the head, when the first micro-batch runs sum. Of the 63.7 KiB live then,\n"
        "19.5 KiB (31 %) is there all the time: parameters. The largest of what comes and goes: "
        "the\n"
        "output made by up linear, [50,100] fp32, 19.5 KiB in each of 2 blocks (39.1 KiB), kept\n"
        "because gelu gradient and head ln gradient need them; then the workspace of sum, 3.9 "
        "KiB.\n"
        "\n"
        "Live at the peak, largest first\n"
        "  layer     what              shape          ×    in all  kept for\n"
        "  ──────────────────────────────────────────────────────────────────────────────────────\n"
        "  2 blocks  up linear         [50,100] fp32  2  39.1 KiB  gelu gradient, head ln gradie…\n"
        "  2 blocks  up.weight         [100,25] fp32  2  19.5 KiB  all steps\n"
        "  head      workspace by sum                 1   3.9 KiB  its operation\n"
        "            1 smaller row                    1    1000 B\n"
        "  ──────────────────────────────────────────────────────────────────────────────────────\n"
        "  all                                        6  63.5 KiB\n"
        "\n"
        "Most is held by activations, 39.1 KiB or 61 % of the peak: they are kept for the "
        "backward\n"
        "pass and grow with micro-batch, length and depth. 100 % of that is the output made by up\n"
        "linear.\n");
    plm_free(page);
    plm_bill_destroy(bill);
}

static void a_page_says_what_is_run_and_whether_it_fits(void **state)
{
    (void)state;
    plm_bill *bill = bill_of(SMALL, 2, PLM_ATTENTION_PLAIN, 1 << 30);
    char *page = page_of(bill, (plm_report_style){0}), exact[64];
    assert_page_has(page, SMALL ", 27,264 parameters\n");
    assert_page_has(page, "batch 2, held at once · sequence 16 · fp32 · plain attention · AdamW\n");
    assert_page_has(page, "device overhead");
    assert_page_has(page, "fits, ");
    snprintf(exact, sizeof exact, "%zu,%03zu,%03zu bytes, with the device's overhead",
             bill->plan.peak_bytes / 1000000, bill->plan.peak_bytes / 1000 % 1000,
             bill->plan.peak_bytes % 1000);
    assert_page_has(page, exact);
    plm_free(page);
    plm_bill_destroy(bill);
    bill = bill_of(SMALL, 2, PLM_ATTENTION_PLAIN, 1000);
    page = page_of(bill, (plm_report_style){0});
    assert_page_has(page, "does not fit, ");
    plm_free(page);
    plm_bill_destroy(bill);
}

static void a_gpt2_page_tells_the_head_and_the_attention_matrix(void **state)
{
    (void)state;
    plm_bill *bill = bill_of("gpt2", 8, PLM_ATTENTION_PLAIN, 0);
    char *page = page_of(bill, (plm_report_style){.columns = 2000});
    assert_page_has(page, "The peak is in the head, when the first micro-batch runs token linear.");
    assert_page_has(page, "is there all the time: parameters, gradients and optimizer state.");
    assert_page_has(page, "the probabilities made by softmax, [8,12,1024,1024] fp32, 384.0 MiB in "
                          "each of 12 blocks (4.50 GiB), kept because softmax gradient and "
                          "attention gradient need them; then the logits made by token linear, "
                          "[8,1024,50257] fp32, 1.53 GiB, kept because cross entropy gradient "
                          "needs it");
    assert_page_has(page, "Most is held by activations");
    assert_page_has(page, "a smaller micro-batch than 8");
    assert_page_has(page, "grows with the square of the sequence; fused attention never holds it");
    plm_free(page);
    plm_bill_destroy(bill);
}

/* The length of the longest line, letters counted, escapes not. */
static int64_t longest_line(const char *page)
{
    int64_t longest = 0, cells = 0;
    for (const char *c = page; *c; c++) {
        if (*c == '\x1b')
            c = strchr(c, 'm');
        else if (*c == '\n')
            cells = 0;
        else if (((unsigned char)*c & 0xc0) != 0x80)
            cells++;
        longest = cells > longest ? cells : longest;
    }
    return longest;
}

static void a_page_keeps_to_the_width_of_the_terminal(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        plm_bill *bill = bill_of("gpt2", 8, (plm_attention_form)form, 1 << 30);
        for (int32_t columns = 80; columns <= 200; columns += 20) {
            char *page = page_of(bill, (plm_report_style){.columns = columns, .rows = 40});
            if (longest_line(page) > columns)
                fail_msg("%lld cells for %d:\n%s", (long long)longest_line(page), (int)columns,
                         page);
            assert_null(strchr(page, '\x1b'));
            plm_free(page);
        }
        char *page = page_of(bill, (plm_report_style){.colour = true, .columns = 100});
        assert_non_null(strstr(page, "\x1b[1m"));
        assert_true(longest_line(page) <= 100);
        plm_free(page);
        plm_bill_destroy(bill);
    }
}

static void the_bill_of_an_empty_trace_is_a_page_too(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    plm_bill *bill = NULL;
    char *line = NULL;
    assert_ok(plm__trace_create(&trace));
    assert_ok(plm_bill_create(trace, &bill));
    char *page = page_of(bill, (plm_report_style){0});
    assert_page_has(page, "Nothing was ever live.");
    assert_ok(plm_report_bill_json(bill, &line));
    assert_page_has(line, "\"live\":[]");
    plm_free(line);
    plm_free(page);
    plm_bill_destroy(bill);
}

/* As recordings of other programs are: nobody said what the block is for. */
static void a_block_whose_role_is_not_known_is_counted_and_named_so(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    plm_bill *bill = NULL;
    char *line = NULL;
    plm_owner owner = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
    plm_event event = {.bytes_asked = 1000, .bytes_taken = 1024, .kind = PLM_EVENT_BLOCK_ALLOC};
    assert_ok(plm__trace_create(&trace));
    owner.name = intern(trace, "somebody");
    assert_ok(plm__trace_add_owner(trace, &owner, &event.owner));
    assert_ok(plm__trace_add_event(trace, &event));
    assert_ok(plm_bill_create(trace, &bill));
    assert_int_equal(bill->live_bytes, 1024);
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        assert_int_equal(bill->at_peak_bytes[role], 0);
    char *page = page_of(bill, (plm_report_style){0});
    assert_page_has(page, "role not known");
    assert_page_has(page, "somebody");
    assert_ok(plm_report_bill_json(bill, &line));
    assert_page_has(line, "\"role\":null");
    plm_free(line);
    plm_free(page);
    plm_bill_destroy(bill);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *json_of(const plm_bill *bill)
{
    char *line = NULL;
    json_t *root = NULL;
    assert_ok(plm_report_bill_json(bill, &line));
    assert_null(strchr(line, '\n'));
    assert_ok(plm__json_read("the bill", line, strlen(line), &root));
    plm_free(line);
    return root;
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

static void json_has_the_keys_that_others_rely_on(void **state)
{
    (void)state;
    static const char *const keys[] = {"parameters_bytes",
                                       "gradients_bytes",
                                       "master_bytes",
                                       "optimizer_bytes",
                                       "activations_bytes",
                                       "workspace_bytes",
                                       "largest_temporary_bytes",
                                       "persistent_bytes",
                                       "transient_bytes",
                                       "arena_bytes",
                                       "lower_bound_bytes",
                                       "overhead_bytes",
                                       "peak_bytes",
                                       "fits",
                                       "verdict",
                                       "peak",
                                       "model",
                                       "batch",
                                       "micro_batch",
                                       "sequence",
                                       "parameter_count",
                                       "budget_bytes",
                                       "padding_bytes",
                                       "strategy"};
    static const char *const block_keys[] = {"layer", "name",  "op",      "role",    "shape",
                                             "dtype", "bytes", "made_by", "kept_for"};
    plm_bill *bill = bill_of(SMALL, 2, PLM_ATTENTION_PLAIN, 0);
    json_t *root = json_of(bill);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(root, keys[i]))
            fail_msg("%s is missing", keys[i]);
    assert_true(json_is_null(json_object_get(root, "budget_bytes")));
    assert_true(json_is_true(json_object_get(root, "fits")));
    const json_t *peak = json_object_get(root, "peak");
    assert_true(json_is_string(json_object_get(peak, "at")));
    const json_t *live = json_object_get(peak, "live");
    assert_int_equal(json_array_size(live), bill->live_count);
    for (size_t i = 0; i < json_array_size(live); i++)
        for (size_t k = 0; k < sizeof block_keys / sizeof *block_keys; k++)
            if (!json_object_get(json_array_get(live, i), block_keys[k]))
                fail_msg("%s is missing of block %zu", block_keys[k], i);
    const json_t *strategy = json_object_get(root, "strategy");
    assert_int_equal(number(strategy, "micro_batch"), 2);
    assert_string_equal(json_string_value(json_object_get(strategy, "attention")), "plain");
    json_decref(root);
    plm_bill_destroy(bill);
}

static void json_figures_are_the_bills(void **state)
{
    (void)state;
    plm_bill *bill = bill_of(SMALL, 2, PLM_ATTENTION_PLAIN, 12345);
    json_t *root = json_of(bill);
    const json_t *live = json_object_get(json_object_get(root, "peak"), "live");
    json_int_t sum = number(root, "padding_bytes");
    for (size_t i = 0; i < json_array_size(live); i++)
        sum += number(json_array_get(live, i), "bytes");
    assert_int_equal(sum, number(root, "lower_bound_bytes"));
    assert_int_equal(number(root, "arena_bytes"),
                     number(root, "persistent_bytes") + number(root, "transient_bytes"));
    assert_int_equal(number(root, "peak_bytes"), number(root, "arena_bytes") + OVERHEAD_BYTES);
    assert_int_equal(number(root, "parameters_bytes"), 4 * number(root, "parameter_count"));
    assert_int_equal(number(root, "optimizer_bytes"), 8 * number(root, "parameter_count"));
    assert_int_equal(number(root, "activations_bytes"), bill->role_bytes[PLM_ROLE_ACTIVATION]);
    assert_int_equal(number(root, "budget_bytes"), 12345);
    assert_true(json_is_false(json_object_get(root, "fits")));
    json_decref(root);
    plm_bill_destroy(bill);
}

static void what_is_not_known_is_null_in_json(void **state)
{
    (void)state;
    plm_bill *bill = hand_bill();
    json_t *root = json_of(bill);
    const json_t *live = json_object_get(json_object_get(root, "peak"), "live");
    const json_t *workspace = json_array_get(live, 4), *tokens = json_array_get(live, 5);
    assert_true(json_is_null(json_object_get(workspace, "shape")));
    assert_true(json_is_null(json_object_get(workspace, "dtype")));
    assert_true(json_is_null(json_object_get(tokens, "layer")));
    assert_true(json_is_null(json_object_get(tokens, "made_by")));
    assert_null(json_object_get(root, "peak_bytes")); /* no plan, no regions */
    json_decref(root);
    plm_bill_destroy(bill);
}

/* ---- failures ------------------------------------------------------------------------------ */

static plm_status render_page(void *bill)
{
    char *text = NULL;
    plm_status status = plm_report_bill_text(bill, (plm_report_style){.rows = 3}, &text);
    plm_free(text);
    return status;
}

static plm_status render_json(void *bill)
{
    char *text = NULL;
    plm_status status = plm_report_bill_json(bill, &text);
    plm_free(text);
    return status;
}

static plm_status make_bill(void *plan)
{
    plm_bill *bill = NULL;
    plm_status status = plm_plan_bill(plan, "a model", 1, &bill);
    plm_bill_destroy(bill);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fake_device device = fake_device_make(PRODUCT_BYTES, 0);
    plm_plan *plan = plan_of("gpt:layers=1,width=8,heads=1,context=4,vocab=8", 1, 1,
                             PLM_ATTENTION_PLAIN, &device);
    plm_bill *bill = NULL, *small = hand_bill();
    assert_ok(plm_plan_bill(plan, "a model", 4096, &bill));
    sweep_failures(make_bill, plan);
    sweep_failures(render_page, bill);
    sweep_failures(render_json, small);
    plm_bill_destroy(small);
    plm_bill_destroy(bill);
    plm_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_blocks_and_padding_add_up_to_the_lower_bound),
        cmocka_unit_test(bills_of_16_bit_weights_of_any_width_add_up),
        cmocka_unit_test(states_are_four_bytes_a_parameter_each),
        cmocka_unit_test(the_attention_matrix_grows_with_the_square_of_the_length),
        cmocka_unit_test(fused_attention_never_holds_the_matrix),
        cmocka_unit_test(the_peak_is_told_with_program_layer_and_operation),
        cmocka_unit_test(roles_tell_what_is_kept_from_what_passes),
        cmocka_unit_test(a_budget_fits_when_it_is_the_peak_and_not_a_byte_less),
        cmocka_unit_test(a_trace_by_hand_becomes_this_page),
        cmocka_unit_test(a_page_says_what_is_run_and_whether_it_fits),
        cmocka_unit_test(a_gpt2_page_tells_the_head_and_the_attention_matrix),
        cmocka_unit_test(a_page_keeps_to_the_width_of_the_terminal),
        cmocka_unit_test(the_bill_of_an_empty_trace_is_a_page_too),
        cmocka_unit_test(a_block_whose_role_is_not_known_is_counted_and_named_so),
        cmocka_unit_test(json_has_the_keys_that_others_rely_on),
        cmocka_unit_test(json_figures_are_the_bills),
        cmocka_unit_test(what_is_not_known_is_null_in_json),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return run_test_group(tests);
}
