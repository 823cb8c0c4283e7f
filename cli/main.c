/* SPDX-License-Identifier: MIT */
/* The program: a table of commands. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/nearest.h"
#include "plimsoll/version.h"

/* In the order in which a newcomer meets them; ended by a row without a name. */
static const cli_command commands[] = {
    {"bill", "where memory goes when a model is trained or served, before it runs", cmd_bill,
     false},
#if PLM_ENGINE
    {"plan", "the fastest way to train within a budget, and what was turned down", cmd_plan, false},
    {"train", "plan for a budget, then train inside it", cmd_train, true},
    {"profile", "one measured step: time and memory of each operation", cmd_profile, true},
    {"curve", "how memory and time grow with batch or length", cmd_curve, true},
#endif
    {"tokens", "a text as a model's tokens, and back", cmd_tokens, false},
    {"snapshot", "who holds memory in a PyTorch recording, and why it ran out", cmd_snapshot,
     false},
    {"replay", "what other allocator settings would have done for a recorded run", cmd_replay,
     false},
    {"report", "a recording of PyTorch's memory as a page, or for other programs", cmd_report,
     false},
    {"forecast", "what a PyTorch script would hold on a GPU that is not here", cmd_forecast, false},
    {"record", "run a PyTorch program and record its GPU memory", cmd_record, false},
    {"doctor", "what an out-of-memory message proves, and what to do next", cmd_doctor, false},
    {NULL, NULL, NULL, false},
};

static void print_usage(FILE *stream)
{
    fputs(CLI_SUMMARY "\n\n"
                      "usage: plimsoll COMMAND [options]\n",
          stream);
    if (commands[0].name)
        fputs("\ncommands:\n", stream);
    for (const cli_command *command = commands; command->name; command++)
        fprintf(stream, "  %-12s%s\n", command->name, command->summary);
    fputs("\noptions:\n"
          "  --help      print this text; after a command, its own\n"
          "  --version   print the version\n"
          "  --help=man, --help=bash\n"
          "              print the manual page, the completion for bash\n"
          "\n"
          "exit status: 0 done; 1 the answer is no; 2 wrong use or bad input; 3 failed\n",
          stream);
}

static int unknown(const char *word)
{
    const char *what = word[0] == '-' ? "option" : "command";
    plm_nearest nearest = {.word = word};
    for (const cli_command *command = commands; command->name; command++)
        plm_nearest_offer(&nearest, command->name);
    plm_nearest_offer(&nearest, "--help");
    plm_nearest_offer(&nearest, "--version");
    if (nearest.name)
        return cli_wrong("unknown %s '%s'; did you mean %s?", what, word, nearest.name);
    return cli_wrong("unknown %s '%s'; see plimsoll --help", what, word);
}

static int run_command(const cli_command *command, int argc, char **argv)
{
#if PLM_ENGINE
    if (command->computes)
        cli_let_threads_sleep(argv);
#endif
    return command->run(argc - 1, argv + 1);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CLI_WRONG;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("plimsoll %s\n", plm_version());
        return CLI_DONE;
    }
    if (strcmp(argv[1], CLI_HELP_MANUAL) == 0)
        return cli_print_manual(commands);
    if (strcmp(argv[1], CLI_HELP_COMPLETION) == 0)
        return cli_print_completion(commands);
    for (const cli_command *command = commands; command->name; command++)
        if (strcmp(argv[1], command->name) == 0)
            return run_command(command, argc, argv);
    return unknown(argv[1]);
}

int main(int argc, char **argv)
{
    int exit_status = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) { /* a full disk must not look like success */
        fputs("plimsoll: cannot write to standard output\n", stderr);
        return CLI_FAILED;
    }
    return exit_status;
}
