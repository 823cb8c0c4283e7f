/* SPDX-License-Identifier: MIT */
/* A network of one's own, planned for 2 MiB and trained inside them: own_model [TEXT FILE] */
#include <plimsoll/data.h>
#include <plimsoll/session.h>
#include <stdio.h>

enum { VOCAB = 256, WIDTH = 64, HEADS = 4, LENGTH = 32, BATCH = 16, STEPS = 60, BUDGET = 2 << 20 };
static const plm_init spread = {.normal = true, .value = 0.05f}; /* of first values */

static plm_tensor product(plm_graph *g, const char *name, plm_tensor x, int64_t out, int64_t in)
{
    plm_tensor weight = plm_parameter(g, name, 2, (int64_t[]){out, in}, spread, true);
    return plm_linear(g, x, weight, PLM_TENSOR_NONE);
}

/* One block of attention and MLP; called once for each program that the job runs. */
static void build(plm_graph *g, const void *config, plm_program program, int64_t batch, int64_t t)
{
    (void)config, (void)program; /* nothing differs from program to program here */
    plm_tensor tokens = plm_input(g, "tokens", 2, (int64_t[]){batch, t});
    plm_tensor targets = plm_input(g, "targets", 2, (int64_t[]){batch, t});
    plm_tensor letters = plm_parameter(g, "letters", 2, (int64_t[]){VOCAB, WIDTH}, spread, true);
    plm_tensor places = plm_parameter(g, "places", 2, (int64_t[]){LENGTH, WIDTH}, spread, true);
    plm_tensor x = plm_position(g, plm_embedding(g, tokens, letters), places);
    plm_tensor seen = plm_attention(g, product(g, "qkv", x, 3 * WIDTH, WIDTH), HEADS, HEADS, true);
    x = plm_add(g, x, product(g, "mix", seen, WIDTH, WIDTH));
    plm_tensor bent = plm_gelu(g, product(g, "up", x, 4 * WIDTH, WIDTH));
    x = plm_add(g, x, product(g, "down", bent, WIDTH, 4 * WIDTH));
    plm_cross_entropy(g, plm_linear(g, x, letters, PLM_TENSOR_NONE), targets);
}

int main(int argc, char **argv)
{
    const plm_job job = {{build, NULL}, BATCH, LENGTH, .trains = true};
    const plm_strategy strategy = plm_strategy_default();
    const plm_hyper hyper = plm_hyper_default();
    plm_corpus *text = NULL;
    plm_device *cpu = NULL;
    plm_plan *plan = NULL;
    plm_session *session = NULL;
    plm_error error;
    plm_step_result results[STEPS] = {0};
    int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
    int wrong = plm_corpus_open(argc > 1 ? argv[1] : "data/text.txt", LENGTH, VOCAB, &text) ||
                plm_device_open("cpu", 0, BUDGET, &cpu) ||
                plm_plan_for_budget(&job, &strategy, cpu, BUDGET, NULL, &plan) ||
                plm_session_create(plan, cpu, 1, &session);
    for (int step = 0; step < STEPS && !wrong; step++)
        wrong = plm_corpus_sample(text, 1, step, 0, BATCH, tokens, targets) ||
                plm_session_step(session, step, &hyper, BATCH, tokens, targets, &results[step]);
    plm_error_get(&error);
    if (wrong)
        fprintf(stderr, "%s\n", error.message);
    else
        printf("trained: loss %.3f at first, %.3f at last\n", results[0].loss,
               results[STEPS - 1].loss);
    plm_session_destroy(session);
    plm_plan_destroy(plan);
    plm_device_destroy(cpu);
    plm_corpus_close(text);
    return wrong || results[STEPS - 1].loss >= results[0].loss;
}
