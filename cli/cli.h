/* SPDX-License-Identifier: MIT */
/*
 * What the commands of the program share. A command is one file cmd_NAME.c with one function, named
 * here and in the table of main.c: it reads its line, calls the library, renders the answer on
 * standard output and returns the exit status. It sees the public headers only.
 *
 *     int cmd_bill(int argc, char **argv)
 *     {
 *         settings settings;
 *         plm_operands operands;
 *         int exit_status;
 *         if (!cli_parse(&syntax, argc, argv, &settings, &operands, &exit_status))
 *             return exit_status;
 *         plm_status status = ...;
 *         return cli_finish(status);
 *     }
 */
#ifndef PLM_CLI_H
#define PLM_CLI_H

#include <stdbool.h>

#include "plimsoll/device_profile.h"
#include "plimsoll/options.h"
#include "plimsoll/report.h"

/* Exit statuses of the program. */
enum {
    CLI_DONE = 0,
    CLI_NO = 1,    /* the answer is no: too small a budget or memory, a check that failed */
    CLI_WRONG = 2, /* wrong use or bad input */
    CLI_FAILED = 3 /* the machine or the program failed */
};

typedef struct cli_command {
    const char *name;
    const char *summary;               /* a few words, lower case, no full stop */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    bool computes;                     /* with threads, for long: see cli_let_threads_sleep */
} cli_command;

/* Loads the program anew with OMP_WAIT_POLICY=passive, unless the environment says how to wait:
 * threads that wait sleep, which a busy machine thanks for. `argv` is the whole line. */
void cli_let_threads_sleep(char **argv);

/*
 * What a command answers beside --help, through cli_parse and so without a line of its own: its
 * part of the manual page, and of the completion.
 */
#define CLI_SUMMARY                                                                                \
    "Plimsoll trains transformers inside a stated memory budget and explains every byte."

#define CLI_HELP_MANUAL     "--help=man"
#define CLI_HELP_COMPLETION "--help=bash"

/* The manual page and the bash completion of the whole program, on standard output: a frame round
 * what each command of the table says of itself. Return the exit status. */
int cli_print_manual(const cli_command *commands);
int cli_print_completion(const cli_command *commands);

/* The commands. */
int cmd_bill(int argc, char **argv);
int cmd_curve(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_forecast(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_tokens(int argc, char **argv);

/* Fields of a plm_syntax that commands fill alike: the table of options, one operand. */
#define CLI_OPTIONS(rows)     .options = (rows), .option_count = sizeof(rows) / sizeof *(rows)
#define CLI_ONE_OPERAND(name) .operands = (name), .operands_least = 1, .operands_most = 1

/*
 * Reads a command's line. True when the command may go on; false when *exit_status is already the
 * answer: the help was printed, or the line that says what was wrong.
 */
bool cli_parse(const plm_syntax *syntax, int argc, char **argv, void *settings,
               plm_operands *operands, int *exit_status);

/*
 * How to write for standard output: for a terminal its width and, unless NO_COLOR is set
 * (no-color.org) or the terminal is dumb, colour; elsewhere the defaults. `rows` as in the style.
 */
plm_report_style cli_style(int64_t rows);

enum { CLI_PATH_TEXT = 4096 };

/* Where the rates of the device of that name are kept: `given`, or cpu.json or cuda.json in the
 * user's cache; false when the environment names no cache, and the path is in the working folder.
 */
bool cli_cache_path(const char *device, const char *given, char path[CLI_PATH_TEXT]);

/*
 * *profile = &*rates, read from `given`, or from where calibration left those of the device `name`,
 * else what is known of a GPU of its kind; NULL when there is nothing. What calibration left and
 * can no longer be read is passed over with a notice.
 */
plm_status cli_profile(const char *given, const char *name, const plm_device *device,
                       plm_device_profile *rates, const plm_device_profile **profile);

/* Prints what a report wrote, a line of JSON or a page, unless it failed; frees the text. Returns
 * the status. */
plm_status cli_print(plm_status status, char *text, bool json);

/* What this program calls the hints of the library, by plm_hint. */
extern const char *const cli_hints[PLM_HINT_COUNT];

/* The last part of a path. */
const char *cli_file_name(const char *path);

/* The exit status of a plm_status; a failure prints its message as one line on standard error. */
int cli_finish(plm_status status);

/* Prints "plimsoll: ..." on standard error and returns CLI_WRONG. */
int cli_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
