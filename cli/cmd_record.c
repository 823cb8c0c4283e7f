/* SPDX-License-Identifier: MIT */
/*
 * plimsoll record: becomes the command, with the recorder in its environment. Because it becomes
 * it, signals, terminal and exit status are the command's own.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "plimsoll/record.h"

/* What a shell says of a command that it cannot run. */
enum { NOT_FOUND = 127, NOT_RUNNABLE = 126 };

typedef struct record_options {
    const char *out;
    int64_t entries;
    int64_t at_step;
    bool on_exit;
    int stacks;
    int signal;
} record_options;

static const char *const stacks[] = {"python", "all"};
static const char *const signals[] = {"USR2", "USR1", "none"};

static const plm_option options[] = {
    {"out", PLM_OPTION_TEXT, offsetof(record_options, out), "DIR", "plimsoll-record", NULL,
     "folder for the snapshots and their records", NULL},
    {"entries", PLM_OPTION_COUNT, offsetof(record_options, entries), "N", PLM_RECORD_ENTRIES_TEXT,
     NULL, "memory events that are kept; older ones are lost", NULL},
    {"at-step", PLM_OPTION_COUNT, offsetof(record_options, at_step), "N", NULL, NULL,
     "also write after N calls of an optimizer's step", NULL},
    {"on-exit", PLM_OPTION_FLAG, offsetof(record_options, on_exit), NULL, NULL, NULL,
     "also write when a process ends by itself", NULL},
    {"stacks", PLM_OPTION_CHOICE, offsetof(record_options, stacks), "KIND", "python", "python|all",
     "frames that are kept; all adds C++, which is slow to gather", NULL},
    {"signal", PLM_OPTION_CHOICE, offsetof(record_options, signal), "NAME", "USR2",
     "USR2|USR1|none", "also write on this signal, sent to the Python process", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll record",
    .summary = "Runs a command and records the GPU memory of every PyTorch process in it. An "
               "out-of-memory error is written to a file a rank and goes on unchanged.",
    .operands = "-- COMMAND...",
    CLI_OPTIONS(options),
    .example = "plimsoll record --at-step 3 -- python train.py",
};

int cmd_record(int argc, char **argv)
{
    int own = 1; /* words before "--" are ours, those after it the command */
    while (own < argc && strcmp(argv[own], "--") != 0)
        own++;
    record_options o;
    plm_operands operands;
    int exit_status;
    if (!cli_parse(&syntax, own, argv, &o, &operands, &exit_status))
        return exit_status;
    if (own + 1 >= argc)
        return cli_wrong("record wants a command after --: plimsoll record -- python train.py");
    char **command = argv + own + 1;
    plm_record_settings settings = {
        .out = o.out,
        .entries = o.entries,
        .at_step = o.at_step,
        .on_exit = o.on_exit,
        .stacks = stacks[o.stacks],
        .signal = signals[o.signal],
    };
    char **environment = NULL;
    plm_status status = plm_record_prepare(&settings, environ, &environment);
    if (status != PLM_OK)
        return cli_finish(status);
    execvpe(command[0], command, environment);
    int error = errno;
    plm_free(environment);
    cli_wrong("cannot run '%s': %s", command[0], strerror(error));
    return error == ENOENT ? NOT_FOUND : NOT_RUNNABLE;
}
