/* SPDX-License-Identifier: MIT */
/* plimsoll train: plans, then trains inside the budget. */
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "choices.h"
#include "plimsoll/export.h"
#include "plimsoll/plan_report.h"
#include "plimsoll/size.h"
#include "plimsoll/train.h"

enum {
    SAMPLE_MAX = 4096, /* bytes of generated text */
    LINE_BYTES = 256,  /* of progress */
    BILL_ROWS = 6      /* of the table of what is live at the peak */
};

#define TEMPERATURE 0.8

typedef struct train_options {
    cli_choices choices;
    plm_train_settings run; /* what the rows below do not fill comes from the request */
    double momentum;
    double learning_rate;
    double weight_decay;
    double clip;
    int64_t sample;
    const char *prompt;
    const char *trace; /* file, NULL: none */
    int64_t trace_steps;
} train_options;
CLI_CHOICES_COME_FIRST(train_options);

static const plm_option options[] = {
    {"data", PLM_OPTION_TEXT, offsetof(train_options, run.data_path), "FILE", NULL, NULL,
     "text to train on, read as bytes; its last tenth is held out", NULL},
    CLI_BUDGET(
        "memory that the run may use, such as 512MiB; default: what the machine has available"),
    CLI_BATCH(CLI_BATCH_HELP),
    CLI_MICRO_BATCH(CLI_MICRO_HELP "the most that fit"),
    CLI_SEQUENCE(CLI_SEQUENCE_HELP),
    CLI_STRATEGY_ROWS,
    CLI_RECOMPUTE("auto", CLI_RUNGS_HELP "what the budget asks for, block by block"),
    CLI_HEAD_CHUNKS(NULL, CLI_CHUNKS_HELP "; default: what the budget asks for"),
    CLI_MLP_CHUNKS(NULL, CLI_MLP_CHUNKS_HELP "; default: what the budget asks for"),
    CLI_STRATEGY(CLI_STRATEGY_HELP),
    CLI_PROFILE(CLI_PROFILE_HELP),
    {"steps", PLM_OPTION_COUNT, offsetof(train_options, run.steps), "N", "100", NULL, "updates",
     NULL},
    CLI_OPTIMIZER(CLI_OPTIMIZER_HELP),
    {"momentum", PLM_OPTION_REAL, offsetof(train_options, momentum), "SHARE", "0.9", NULL,
     "of the last step that sgd keeps", NULL},
    {"lr", PLM_OPTION_REAL, offsetof(train_options, learning_rate), "RATE", "6e-4", NULL,
     "largest learning rate; falls to a tenth along a cosine", NULL},
    {"warmup", PLM_OPTION_INTEGER, offsetof(train_options, run.warmup), "N", NULL, NULL,
     "updates over which the rate rises; default: a twentieth of the steps", NULL},
    {"weight-decay", PLM_OPTION_REAL, offsetof(train_options, weight_decay), "RATE", "0.1", NULL,
     "of weights and embeddings, not of biases and normalisations", NULL},
    {"clip", PLM_OPTION_REAL, offsetof(train_options, clip), "NORM", "1.0", NULL,
     "largest global norm of the gradient; 0 is off", NULL},
    {"seed", PLM_OPTION_INTEGER, offsetof(train_options, run.seed), "N", "1", NULL,
     "of first values, order of the data and dropout", NULL},
    {"eval-every", PLM_OPTION_INTEGER, offsetof(train_options, run.eval_every), "N", "0", NULL,
     "updates between evaluations; 0: only at the end", NULL},
    {"eval-sequences", PLM_OPTION_INTEGER, offsetof(train_options, run.eval_sequences), "N", "64",
     NULL, "held-out sequences evaluated, evenly spread; 0: all", NULL},
    {"sample", PLM_OPTION_INTEGER, offsetof(train_options, sample), "N", "0", NULL,
     "bytes of text to generate at the end", NULL},
    {"prompt", PLM_OPTION_TEXT, offsetof(train_options, prompt), "TEXT", NULL, NULL,
     "what the sample continues", NULL},
    CLI_DEVICE,
    CLI_THREADS(CLI_THREADS_HELP),
    {"out", PLM_OPTION_TEXT, offsetof(train_options, run.out_folder), "DIR", NULL, NULL,
     "where checkpoints go: the last update's, and those of --save-every", NULL},
    {"save-every", PLM_OPTION_INTEGER, offsetof(train_options, run.save_every), "N", "0", NULL,
     "updates between checkpoints; 0: only the last", NULL},
    {"keep", PLM_OPTION_COUNT, offsetof(train_options, run.keep), "N", "2", NULL,
     "newest checkpoints kept", NULL},
    {"resume", PLM_OPTION_TEXT, offsetof(train_options, run.resume_folder), "DIR", NULL, NULL,
     "go on from the newest checkpoint there", NULL},
    {"other-text", PLM_OPTION_FLAG, offsetof(train_options, run.other_text), NULL, NULL, NULL,
     "let --resume go on with another text than the checkpoint learnt from", NULL},
    {"trace", PLM_OPTION_TEXT, offsetof(train_options, trace), "FILE", NULL, NULL,
     "write the first updates over time as Chrome's JSON, which ui.perfetto.dev opens: memory, and "
     "each operation as it was timed; the first update warms and is passed over",
     NULL},
    {"trace-steps", PLM_OPTION_COUNT, offsetof(train_options, trace_steps), "N", "3", NULL,
     "updates that --trace takes; the others are not timed", NULL},
    CLI_JSON("one JSON object a line, the summary last"),
};

_Static_assert(PLM_SKIPPED_IN_A_ROW_MAX == 32, "as the help says");

static const plm_syntax syntax = {
    .command = "plimsoll train",
    .summary = "Plans a training run for a budget, then trains inside it. MODEL is " CLI_MODEL_HELP
               ". Ctrl-C stops after the update at hand, saving "
               "it when there is --out; a second one stops at once. A run of which 32 updates in a "
               "row were skipped, their gradients not finite, has diverged: it keeps its last good "
               "checkpoints and ends with status 3.",
    CLI_ONE_OPERAND("MODEL"),
    CLI_OPTIONS(options),
    .example = "plimsoll train gpt:layers=4,width=128,heads=4,context=128,vocab=256 "
               "--data data/text.txt --budget 64MiB --batch 32 --steps 30",
};

/* What the rows do not fill. */
static void complete_settings(train_options *o, const cli_request *request)
{
    plm_train_settings *run = &o->run;
    run->model = request->model;
    run->device = request->device;
    run->budget_bytes = request->budget_bytes;
    run->strategy = request->strategy;
    run->batch = request->job.batch;
    run->sequence = request->job.sequence;
    run->optimizer = request->job.optimizer;
    if (run->warmup < 0)
        run->warmup = run->steps / 20;
    run->hyper = plm_hyper_default();
    run->hyper.momentum = (float)o->momentum;
    run->hyper.learning_rate = (float)o->learning_rate;
    run->hyper.weight_decay = (float)o->weight_decay;
    run->hyper.clip_norm = (float)o->clip;
}

/* The signal that asked to stop, 0 for none: a handler reaches nothing but what is static. */
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    static const char text[] = "\nplimsoll: stopping after this update; once more stops at once\n";
    interrupted = number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        return; /* nobody reads; the run stops all the same */
}

/* Ctrl-C and a polite kill let the update at hand end; the handler is gone after its first use. */
static void catch_signals(bool caught)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = caught ? interrupt : SIG_DFL, .sa_flags = SA_RESTART};
    if (caught)
        action.sa_flags |= (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

/* "1:23" or "2:03:04" */
static const char *clock_text(double seconds, char text[32])
{
    long whole = lround(seconds);
    if (whole >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, 32, "%ld:%02ld", whole / 60, whole % 60);
    return text;
}

typedef struct display {
    bool json;
    bool live;                /* a terminal: one line that is written again and again */
    double next_line_seconds; /* not a terminal: when the next plain line is due */
    plm_status status;        /* of writing a line */
} display;

/* One line of at most `columns` - 1 characters: one that wraps could not be written again. */
static void print_line(const plm_train_progress *p, int64_t columns)
{
    char used[PLM_SIZE_TEXT], budget[PLM_SIZE_TEXT], left[32], line[LINE_BYTES];
    snprintf(line, sizeof line, "step %*lld/%lld  loss %.4f  %6.0f tokens/s  %s of %s  %s left%s",
             snprintf(NULL, 0, "%lld", (long long)p->steps), (long long)p->step,
             (long long)p->steps, p->loss, p->tokens_per_second,
             plm_size_format(p->used_bytes, used), plm_size_format(p->budget_bytes, budget),
             clock_text(p->remaining_seconds, left),
             p->skipped ? "  skipped: the gradient was not finite" : "");
    printf("%.*s", columns > 1 && columns <= LINE_BYTES ? (int)columns - 1 : LINE_BYTES, line);
}

static bool show_progress(const plm_train_progress *p, void *user)
{
    display *d = user;
    if (d->json) {
        char *line = NULL;
        d->status = plm_train_progress_json(p, &line);
        if (d->status != PLM_OK)
            return false;
        puts(line);
        fflush(stdout);
        plm_free(line);
        return !interrupted;
    }
    bool last = p->step == p->steps;
    if (d->live) {
        fputs("\r\033[K", stdout);
        print_line(p, cli_style(0).columns);
        fputs(p->evaluated || last ? "\n" : "", stdout);
    } else if (p->step == 1 || last || p->evaluated || p->elapsed_seconds >= d->next_line_seconds) {
        print_line(p, 0);
        putchar('\n');
        d->next_line_seconds = p->elapsed_seconds + 5;
    }
    if (p->evaluated)
        printf("     validation loss %.4f after step %lld\n", p->validation_loss,
               (long long)p->step);
    fflush(stdout);
    return !interrupted;
}

/* The bill of the plan, then what was chosen. */
static plm_status print_plan(const plm_trainer *trainer, const char *model)
{
    const plm_plan *plan = plm_trainer_plan(trainer);
    plm_plan_summary s = plm_plan_summarize(plan);
    plm_bill *bill = NULL;
    char *text = NULL;
    plm_status status = plm_plan_bill(plan, model, plm_trainer_budget(trainer), &bill);
    if (status == PLM_OK)
        status = plm_report_bill_text(bill, cli_style(BILL_ROWS), &text);
    if (status == PLM_OK)
        printf("%s\n", text);
    plm_free(text);
    plm_bill_destroy(bill);
    int64_t parts = s.batch / s.strategy.micro_batch;
    char peak[PLM_SIZE_TEXT], budget[PLM_SIZE_TEXT], recompute[PLM_RECOMPUTE_LIST_TEXT];
    char mlp[40] = "";
    if (s.strategy.mlp_chunks > 1)
        snprintf(mlp, sizeof mlp, ", MLP in %lld", (long long)s.strategy.mlp_chunks);
    printf("plan    %lld sequences of %lld tokens an update: %lld micro-batch%s of %lld\n"
           "        %s attention, %s%s%s, recompute %s, head in %lld chunk%s%s\n"
           "        peak %s (%zu bytes) of a budget of %s\n\n",
           (long long)s.batch, (long long)s.sequence, (long long)parts, parts == 1 ? "" : "es",
           (long long)s.strategy.micro_batch, plm_attention_text(s.strategy.attention),
           plm_dtype_text(s.strategy.precision),
           s.strategy.gradient == PLM_DTYPE_BF16 ? " with bf16 gradients" : "",
           s.strategy.update == PLM_UPDATE_EARLY ? ", updated early" : "",
           plm_strategy_recompute_format(&s.strategy, recompute), (long long)s.strategy.head_chunks,
           s.strategy.head_chunks == 1 ? "" : "s", mlp, plm_size_format(s.peak_bytes, peak),
           s.peak_bytes, plm_size_format(plm_trainer_budget(trainer), budget));
    return status;
}

static void print_result(const plm_train_result *r)
{
    char budget[PLM_SIZE_TEXT], spent[32];
    printf("\ntrained %lld steps in %s, %.0f tokens/s; loss %.4f at first, %.4f at last\n",
           (long long)r->steps, clock_text(r->seconds, spent), r->tokens_per_second, r->first_loss,
           r->last_loss);
    if (r->skipped_steps > 0)
        printf("%lld of them changed nothing: the gradient was not finite\n",
               (long long)r->skipped_steps);
    if (!isfinite(r->validation_loss))
        printf("validation loss: not %s\n", r->validation_targets > 0 ? "a number" : "measured");
    else if (r->masked)
        printf("validation loss %.4f nats over %lld hidden bytes of the held-out text\n",
               r->validation_loss, (long long)r->validation_targets);
    else
        printf("validation loss %.4f nats over %lld held-out bytes; a bigram model scores %.4f "
               "(%.4f %s)\n",
               r->validation_loss, (long long)r->validation_targets, r->bigram_loss,
               fabs(r->bigram_loss - r->validation_loss),
               r->validation_loss < r->bigram_loss ? "worse" : "better");
    printf("memory: predicted peak %zu bytes, measured peak %zu bytes, %s; budget %s\n",
           r->predicted_peak_bytes, r->measured_peak_bytes,
           r->predicted_peak_bytes == r->measured_peak_bytes ? "equal" : "NOT EQUAL",
           plm_size_format(r->budget_bytes, budget));
    if (r->driver_bytes > 0)
        printf("the GPU's driver gave %zu bytes, which is %s\n", r->driver_bytes,
               r->driver_bytes <= r->budget_bytes ? "within the budget" : "OVER THE BUDGET");
}

static plm_status print_sample(plm_trainer *trainer, const train_options *o)
{
    if (o->sample == 0 || o->choices.json)
        return PLM_OK;
    char text[SAMPLE_MAX + 1];
    const char *prompt = o->prompt ? o->prompt : "";
    plm_status status = plm_trainer_sample(trainer, prompt, o->sample, TEMPERATURE, text);
    if (status == PLM_OK)
        printf("\nsample:\n%s%s\n", prompt, text);
    return status;
}

static void print_stopped(const plm_train_result *r, const plm_train_settings *settings,
                          const display *shown)
{
    if (shown->live && !shown->json)
        putchar('\n');
    fflush(stdout);
    fprintf(stderr, "plimsoll: stopped after step %lld of %lld; ", (long long)r->steps,
            (long long)settings->steps);
    if (!settings->out_folder)
        fputs("nothing was saved, for want of --out\n", stderr);
    else if (r->saved_step == r->steps)
        fprintf(stderr, "--resume %s goes on from there\n", settings->out_folder);
    else
        fprintf(stderr, "nothing was saved there, for the loss or its gradient is not finite\n");
}

static plm_status print_summary(plm_trainer *trainer, const plm_train_result *result,
                                const train_options *o)
{
    if (!o->choices.json) {
        print_result(result);
        return print_sample(trainer, o);
    }
    char *line = NULL;
    plm_status status = plm_train_result_json(result, &line);
    return cli_print(status, line, true);
}

/* A run that came to its end may still have learnt nothing. */
static int judge(plm_status status, const plm_train_result *result)
{
    char saved[64] = "";
    if (status != PLM_OK || !result->diverged)
        return cli_finish(status);
    if (result->saved_step > 0)
        snprintf(saved, sizeof saved, " from the checkpoint of step %lld",
                 (long long)result->saved_step);
    cli_wrong("the run diverged: wanted a loss and a gradient that are finite, found %lld of %lld "
              "updates skipped, the last %lld in a row; try a smaller --lr or a longer --warmup%s",
              (long long)result->skipped_steps, (long long)result->steps,
              (long long)result->skipped_in_a_row, saved);
    return CLI_FAILED;
}

static plm_status begin_tape(plm_trainer *trainer, const train_options *o, plm_tape **tape)
{
    if (!o->trace)
        return PLM_OK;
    plm_status status = plm_tape_create(plm_trainer_plan(trainer), o->trace_steps, tape);
    if (status == PLM_OK)
        plm_trainer_use_tape(trainer, *tape);
    return status;
}

/* A run that was stopped before its second update has nothing to show. */
static plm_status write_tape(const plm_tape *tape, const char *model, const train_options *o)
{
    if (!tape)
        return PLM_OK;
    plm_tape_summary s = plm_tape_summarize(tape);
    if (s.launches == 0) {
        cli_wrong("%s is not written, for no update was timed", o->trace);
        return PLM_OK;
    }
    plm_status status = plm_tape_export(tape, o->trace, model);
    if (status == PLM_OK)
        cli_wrong("%s has %lld update%s of %.3g s, %lld operations%s", o->trace, (long long)s.steps,
                  s.steps == 1 ? "" : "s", s.seconds / (double)(s.steps > 0 ? s.steps : 1),
                  (long long)s.launches, s.is_cut ? ", all that it can hold" : "");
    return status;
}

static int train(const train_options *o)
{
    const plm_train_settings *settings = &o->run;
    plm_trainer *trainer = NULL;
    plm_tape *tape = NULL;
    plm_status status = plm_trainer_create(settings, &trainer);
    if (status != PLM_OK)
        return cli_finish(status);
    display shown = {.json = o->choices.json, .live = isatty(STDOUT_FILENO) != 0};
    plm_train_observer observer = {show_progress, &shown};
    plm_train_result result = {0};
    status = begin_tape(trainer, o, &tape);
    if (status == PLM_OK && !o->choices.json)
        status = print_plan(trainer, settings->model.name);
    if (status == PLM_OK)
        status = plm_trainer_run(trainer, &observer, &result);
    catch_signals(false);
    if (status == PLM_OK)
        status = shown.status;
    bool stopped = status == PLM_OK && result.steps < settings->steps &&
                   result.skipped_in_a_row < PLM_SKIPPED_IN_A_ROW_MAX;
    if (!stopped)
        interrupted = 0; /* it came after the last update, which changes nothing */
    if (stopped)
        print_stopped(&result, settings, &shown);
    if (status == PLM_OK && (!stopped || o->choices.json))
        status = print_summary(trainer, &result, o);
    if (status == PLM_OK)
        status = write_tape(tape, settings->model.name, o);
    plm_trainer_destroy(trainer);
    plm_tape_destroy(tape);
    return stopped ? CLI_DONE : judge(status, &result);
}

/* What the line asks for that no run could do. */
static int check_line(const train_options *o)
{
    if (!o->run.data_path)
        return cli_wrong("train wants --data FILE, a text to train on");
    if (o->run.save_every > 0 && !o->run.out_folder)
        return cli_wrong("--save-every wants --out DIR, where checkpoints go");
    if (o->sample > SAMPLE_MAX)
        return cli_wrong("wanted a --sample of at most %d bytes, found %lld", SAMPLE_MAX,
                         (long long)o->sample);
    return CLI_DONE;
}

static int train_request(train_options *o, const cli_request *request)
{
    if (o->sample > 0 && plm_model_is_masked(&request->model))
        return cli_wrong("--sample continues a text, which a masked model such as %s cannot",
                         request->model.name);
    plm_status status = o->trace ? plm_export_check(o->trace) : PLM_OK; /* not when all is over */
    if (status != PLM_OK)
        return cli_finish(status);
    complete_settings(o, request);
    catch_signals(true);
    return train(o);
}

int cmd_train(int argc, char **argv)
{
    train_options o = {0};
    plm_operands operands;
    cli_request request;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &o, &operands, &exit_status))
        return exit_status;
    exit_status = check_line(&o);
    if (exit_status != CLI_DONE)
        return exit_status;
    plm_status status = cli_request_open(&o.choices, operands.items[0], &request);
    if (status != PLM_OK)
        return cli_finish(status);
    exit_status = train_request(&o, &request);
    cli_request_close(&request);
    fflush(stdout);
    if (exit_status == CLI_DONE && interrupted)
        raise(interrupted); /* a shell that runs a script has to see why this ended */
    return exit_status;
}
