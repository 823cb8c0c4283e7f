/* SPDX-License-Identifier: MIT */
/*
 * The whole engine against tests/data/reference/models.h, which scripts/reference_models.py
 * makes in float64 from the forward formulas alone: losses, every parameter's gradient, and
 * parameters after three clipped updates of AdamW or SGD, for GPT and BERT, plain and fused
 * attention and three micro-batches.
 *
 * Tolerances. fp32 rounds by 2^-24 = 6e-8. A gradient comes out of some 40 operations in a row,
 * each with sums of up to 96 products, whose rounding errors grow like square roots: some 6e-8 x
 * sqrt(40) x sqrt(96) / 4 = 1e-6 of the array's norm; five times that is allowed. A change of a
 * parameter is some 0.02 beside a value of up to 1, whose own rounding is 3e-6 of it, and AdamW
 * divides by small numbers: 2e-5. Each test prints the worst that it saw.
 */
#include "data/reference/models.h"
#include "engine/small_run.h"

#define LOSS_TOLERANCE     1e-6
#define GRADIENT_TOLERANCE 5e-6
#define CHANGE_TOLERANCE   2e-5

enum { ELEMENTS_MAX = 2400 };

static const int64_t micro_batches[] = {4, 2, 1};

static small_shape shape_of(const reference_case *c, plm_attention_form attention,
                            int64_t micro_batch)
{
    return (small_shape){.family = c->family,
                         .optimizer = c->optimizer,
                         .layers = c->layers,
                         .width = c->width,
                         .heads = c->heads,
                         .context = c->context,
                         .vocab = c->vocab,
                         .batch = c->batch,
                         .micro_batch = micro_batch,
                         .sequence = c->sequence,
                         .attention = attention};
}

static float first_value(const reference_case *c, int32_t parameter, int32_t element)
{
    const reference_parameter *p = &c->parameters[parameter];
    return p->constant + small_spread((uint32_t)parameter, (uint32_t)element) / p->divisor;
}

static void write_parameters(const small_run *run, const reference_case *c)
{
    float values[ELEMENTS_MAX];
    for (int32_t p = 0; p < c->parameter_count; p++) {
        int32_t elements = c->parameters[p].elements;
        assert_true(elements <= ELEMENTS_MAX);
        for (int32_t e = 0; e < elements; e++)
            values[e] = first_value(c, p, e);
        assert_ok(plm_session_write(run->session, c->parameters[p].name, PLM_PART_VALUE, elements,
                                    values));
    }
}

static void fill_window(const reference_case *c, int32_t update, small_window *window)
{
    int32_t count = c->batch * c->sequence;
    assert_true(count <= SMALL_WINDOW_MAX);
    for (int32_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)(update * count + i);
        bool ignored = small_hash(REFERENCE_SALT_IGNORED, index) % 5 == 0;
        uint32_t vocab = (uint32_t)c->vocab;
        window->types[i] = (int32_t)(small_hash(REFERENCE_SALT_TYPES, index) % 2);
        window->tokens[i] = (int32_t)(small_hash(REFERENCE_SALT_TOKENS, index) % vocab);
        window->targets[i] =
            ignored ? -1 : (int32_t)(small_hash(REFERENCE_SALT_TARGETS, index) % vocab);
    }
}

typedef struct worst_error {
    double allowed, seen;
} worst_error;

/* The difference of two numbers as a share of `scale`; remembers the worst. */
static void compare(const char *what, double found, double wanted, double scale, worst_error *worst)
{
    double error = fabs(found - wanted) / scale;
    if (!(error <= worst->allowed)) {
        print_error("%s: wanted %.9g, found %.9g, off by %.2g of %.4g\n", what, wanted, found,
                    error, scale);
        fail();
    }
    if (error > worst->seen)
        worst->seen = error;
}

/* One array against its norm, its product with the direction of hashed numbers, and, where they
 * stand in the reference, its elements. */
static void compare_array(const char *what, int32_t index, int32_t count, const double *found,
                          double norm, double product, const double *elements, worst_error *worst)
{
    double squares = 0, products = 0;
    for (int32_t e = 0; e < count; e++) {
        squares += found[e] * found[e];
        products +=
            found[e] * small_spread((uint32_t)(REFERENCE_SALT_DIRECTION + index), (uint32_t)e);
        if (elements)
            compare(what, found[e], elements[e], norm, worst);
    }
    compare(what, sqrt(squares), norm, norm, worst);
    compare(what, products, product, norm, worst);
}

static void compare_gradients(const small_run *run, const reference_case *c, worst_error *worst)
{
    const double *elements = c->gradients;
    for (int32_t p = 0; p < c->parameter_count; p++) {
        const reference_parameter *parameter = &c->parameters[p];
        float values[ELEMENTS_MAX];
        double found[ELEMENTS_MAX];
        assert_ok(plm_session_read(run->session, parameter->name, PLM_PART_GRADIENT,
                                   parameter->elements, values));
        for (int32_t e = 0; e < parameter->elements; e++)
            found[e] = values[e];
        compare_array(parameter->name, p, parameter->elements, found, parameter->gradient_norm,
                      parameter->gradient_product, elements, worst);
        if (elements)
            elements += parameter->elements;
    }
}

static void compare_changes(const small_run *run, const reference_case *c, worst_error *worst)
{
    const double *elements = c->changes;
    for (int32_t p = 0; p < c->parameter_count; p++) {
        const reference_parameter *parameter = &c->parameters[p];
        float values[ELEMENTS_MAX];
        double found[ELEMENTS_MAX];
        assert_ok(plm_session_read(run->session, parameter->name, PLM_PART_VALUE,
                                   parameter->elements, values));
        for (int32_t e = 0; e < parameter->elements; e++)
            found[e] = (double)values[e] - (double)first_value(c, p, e);
        compare_array(parameter->name, p, parameter->elements, found, parameter->change_norm,
                      parameter->change_product, elements, worst);
        if (elements)
            elements += parameter->elements;
    }
}

typedef struct worst_errors {
    worst_error loss, gradient, change;
} worst_errors;

static const worst_errors none_yet = {
    {LOSS_TOLERANCE, 0}, {GRADIENT_TOLERANCE, 0}, {CHANGE_TOLERANCE, 0}};

static void compare_run(const reference_case *c, const small_shape *shape, worst_errors *worst)
{
    const plm_hyper hyper = {.learning_rate = c->learning_rate,
                             .weight_decay = REFERENCE_WEIGHT_DECAY,
                             .beta1 = REFERENCE_BETA1,
                             .beta2 = REFERENCE_BETA2,
                             .epsilon = REFERENCE_EPSILON,
                             .clip_norm = REFERENCE_CLIP_NORM,
                             .momentum = REFERENCE_MOMENTUM};
    small_run run;
    small_window window;
    small_run_open(&run, shape);
    write_parameters(&run, c);
    plm_session_use_types(run.session, window.types);
    for (int32_t update = 0; update < REFERENCE_UPDATES; update++) {
        plm_step_result result;
        fill_window(c, update, &window);
        assert_ok(plm_session_step(run.session, update, &hyper, c->batch, window.tokens,
                                   window.targets, &result));
        assert_false(result.skipped);
        compare("loss", result.loss, c->loss[update], c->loss[update], &worst->loss);
        compare("gradient norm", (double)result.gradient_norm, c->norm[update], c->norm[update],
                &worst->gradient);
        if (update == 0)
            compare_gradients(&run, c, &worst->gradient);
    }
    compare_changes(&run, c, &worst->change);
    small_run_close(&run);
}

static void compare_case(const reference_case *c)
{
    for (int form = 0; form < 2; form++) {
        worst_errors worst = none_yet;
        for (size_t i = 0; i < sizeof micro_batches / sizeof *micro_batches; i++) {
            small_shape shape = shape_of(c, (plm_attention_form)form, micro_batches[i]);
            compare_run(c, &shape, &worst);
        }
        print_message("%s, %s: worst error of a loss %.1e, a gradient %.1e, a change %.1e\n",
                      c->name, plm_attention_text((plm_attention_form)form), worst.loss.seen,
                      worst.gradient.seen, worst.change.seen);
    }
}

static const reference_case *case_named(const char *name)
{
    for (size_t i = 0; i < sizeof reference_cases / sizeof *reference_cases; i++)
        if (strcmp(reference_cases[i].name, name) == 0)
            return &reference_cases[i];
    fail_msg("no reference is called %s", name);
    return NULL;
}

static void tiny_models_are_the_references_in_every_element(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt_tiny", "bert_tiny"};
    for (int i = 0; i < 2; i++) {
        assert_non_null(case_named(names[i])->gradients);
        assert_non_null(case_named(names[i])->changes);
        compare_case(case_named(names[i]));
    }
}

static void two_layers_are_the_references(void **state)
{
    (void)state;
    compare_case(case_named("gpt_two_layers"));
    compare_case(case_named("bert_two_layers"));
}

static void odd_sizes_and_a_position_table_longer_than_the_text_are_the_references(void **state)
{
    (void)state;
    const reference_case *c = case_named("gpt_odd");
    assert_true(c->context > c->sequence);
    compare_case(c);
}

static void updates_by_sgd_are_the_references(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt_sgd", "bert_sgd"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(case_named(names[i])->optimizer, PLM_OPTIMIZER_SGD);
        compare_case(case_named(names[i]));
    }
}

static void check_evaluation(const reference_case *c, int64_t micro_batch)
{
    small_shape shape = shape_of(c, PLM_ATTENTION_FUSED, micro_batch);
    small_run run;
    small_window window;
    double sum;
    worst_error worst = none_yet.loss;
    int64_t counted, expected = 0;
    small_run_open(&run, &shape);
    write_parameters(&run, c);
    fill_window(c, 0, &window);
    plm_session_use_types(run.session, window.types);
    for (int32_t t = 0; t < c->batch * c->sequence; t++)
        expected += window.targets[t] >= 0;
    assert_ok(
        plm_session_evaluate(run.session, c->batch, window.tokens, window.targets, &sum, &counted));
    assert_int_equal(counted, expected);
    compare("evaluated loss", sum / (double)counted, c->loss[0], c->loss[0], &worst);
    small_run_close(&run);
}

static void evaluation_is_the_references_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof micro_batches / sizeof *micro_batches; i++) {
        check_evaluation(case_named("gpt_two_layers"), micro_batches[i]);
        check_evaluation(case_named("bert_two_layers"), micro_batches[i]);
    }
}

/* -log softmax(logits)[target] in double. */
static double token_loss(const float *logits, int64_t vocab, int32_t target)
{
    double largest = logits[0], sum = 0;
    for (int64_t v = 1; v < vocab; v++)
        largest = fmax(largest, logits[v]);
    for (int64_t v = 0; v < vocab; v++)
        sum += exp(logits[v] - largest);
    return log(sum) + largest - logits[target];
}

/* Every prefix is generated from in turn: what comes after it must not be seen. */
static void the_logits_of_every_prefix_add_up_to_the_references_loss(void **state)
{
    (void)state;
    const reference_case *c = case_named("gpt_two_layers");
    small_shape shape = shape_of(c, PLM_ATTENTION_FUSED, 4);
    small_run run;
    small_window window;
    float logits[64];
    double sum = 0, counted = 0;
    worst_error worst = none_yet.loss;
    small_run_open(&run, &shape);
    write_parameters(&run, c);
    fill_window(c, 0, &window);
    for (int32_t b = 0; b < c->batch; b++) {
        for (int32_t t = 0; t < c->sequence; t++) {
            int32_t target = window.targets[b * c->sequence + t];
            if (target < 0)
                continue;
            assert_ok(plm_session_generate(run.session, t + 1, window.tokens + b * c->sequence,
                                           c->vocab, logits));
            sum += token_loss(logits, c->vocab, target);
            counted += 1;
        }
    }
    compare("loss of generated logits", sum / counted, c->loss[0], c->loss[0], &worst);
    small_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_models_are_the_references_in_every_element),
        cmocka_unit_test(two_layers_are_the_references),
        cmocka_unit_test(odd_sizes_and_a_position_table_longer_than_the_text_are_the_references),
        cmocka_unit_test(updates_by_sgd_are_the_references),
        cmocka_unit_test(evaluation_is_the_references_loss),
        cmocka_unit_test(the_logits_of_every_prefix_add_up_to_the_references_loss),
    };
    return run_test_group(tests);
}
