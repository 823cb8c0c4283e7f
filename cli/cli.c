/* SPDX-License-Identifier: MIT */
/* What the commands share: reading a line, and saying no. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What a status means to a shell. */
static const int exit_statuses[PLM_STATUS_COUNT] = {
    [PLM_OK] = CLI_DONE,
    [PLM_ERROR_ARGUMENT] = CLI_WRONG,
    [PLM_ERROR_OVERFLOW] = CLI_WRONG,
    [PLM_ERROR_HOST_MEMORY] = CLI_FAILED,
    [PLM_ERROR_DEVICE_MEMORY] = CLI_NO,
    [PLM_ERROR_BUDGET] = CLI_NO,
    [PLM_ERROR_FORMAT] = CLI_WRONG,
    [PLM_ERROR_UNSUPPORTED] = CLI_WRONG,
    [PLM_ERROR_IO] = CLI_WRONG, /* where the machine is not to blame: cli_finish */
    [PLM_ERROR_DEVICE] = CLI_FAILED,
    [PLM_ERROR_STATE] = CLI_FAILED,
};

const char *const cli_hints[PLM_HINT_COUNT] = {
    [PLM_HINT_OPTIMIZER] = "--optimizer", [PLM_HINT_ATTENTION] = "--attention",
    [PLM_HINT_RECOMPUTE] = "--recompute", [PLM_HINT_PRECISION] = "--precision",
    [PLM_HINT_GRADIENT] = "--gradient",   [PLM_HINT_UPDATE] = "--update",
    [PLM_HINT_BATCH] = "--batch",         [PLM_HINT_SEQUENCE] = "--seq",
    [PLM_HINT_ROWS] = "--rows",           [PLM_HINT_CAPACITY] = "--capacity",
    [PLM_HINT_CLIP_NOTHING] = "--clip 0", [PLM_HINT_OTHER_TEXT] = "--other-text",
};

/* Whether the system said no to a path, which whoever gave it can mend. Else the machine failed: a
 * full disk, one that only reads, no descriptor left. */
static bool is_wrong_path(int system_error)
{
    static const int errors[] = {ENOENT, ENOTDIR, EISDIR,       EACCES, EPERM,
                                 EEXIST, ELOOP,   ENAMETOOLONG, ENXIO,  ENODEV};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (system_error == errors[i])
            return true;
    return false;
}

int cli_wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout); /* where both go to one file, the message stands after what was printed */
    fputs("plimsoll: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return CLI_WRONG;
}

static bool colour_is_welcome(void)
{
    const char *terminal = plm_environment("TERM");
    return !plm_environment("NO_COLOR") && terminal && strcmp(terminal, "dumb") != 0;
}

plm_report_style cli_style(int64_t rows)
{
    plm_report_style style = {.rows = rows, .hints = cli_hints};
    struct winsize window;
    if (!isatty(STDOUT_FILENO))
        return style;
    style.colour = colour_is_welcome();
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
        style.columns = window.ws_col;
    return style;
}

const char *cli_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

int cli_finish(plm_status status)
{
    if (status == PLM_OK)
        return CLI_DONE;
    plm_error error;
    plm_error_get(&error);
    cli_wrong("%s%s%s", error.message[0] ? error.message : plm_status_text(status),
              error.hint ? ": " : "", error.hint ? cli_hints[error.hint] : "");
    if (error.system_error != 0 && !is_wrong_path(error.system_error))
        return CLI_FAILED;
    return (unsigned)status < PLM_STATUS_COUNT ? exit_statuses[status] : CLI_FAILED;
}

plm_status cli_print(plm_status status, char *text, bool json)
{
    if (status == PLM_OK)
        printf("%s%s", text, json ? "\n" : "");
    plm_free(text);
    return status;
}

/* What a command's help is printed as: plain --help for people, the other forms for pages.c. */
typedef plm_status help_form(const plm_syntax *syntax, char **text);

static const struct {
    const char *word;
    help_form *form;
} help_forms[] = {
    {CLI_HELP_MANUAL, plm_options_manual},
    {CLI_HELP_COMPLETION, plm_options_completion},
};

/* The form that a line of one word asks for, or NULL. */
static help_form *find_form(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof help_forms / sizeof *help_forms; i++)
        if (argc == 2 && strcmp(argv[1], help_forms[i].word) == 0)
            return help_forms[i].form;
    return NULL;
}

static plm_status print_help(const plm_syntax *syntax, help_form *form)
{
    char *text = NULL;
    plm_status status = form(syntax, &text);
    if (status == PLM_OK)
        fputs(text, stdout);
    plm_free(text);
    return status;
}

bool cli_parse(const plm_syntax *syntax, int argc, char **argv, void *settings,
               plm_operands *operands, int *exit_status)
{
    help_form *form = find_form(argc, argv);
    plm_status status = PLM_OK;
    if (!form) {
        status = plm_options_parse(syntax, argc, argv, settings, operands);
        if (status == PLM_OK && !operands->help)
            return true;
        form = plm_options_help;
    }
    if (status == PLM_OK)
        status = print_help(syntax, form);
    *exit_status = cli_finish(status);
    return false;
}
