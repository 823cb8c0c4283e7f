/* SPDX-License-Identifier: MIT */
/*
 * Command lines, described by data. A command is a syntax: its name, its operands and a table of
 * options, each of which names the field of the command's settings that it fills. Reading the
 * line, the text of --help and whatever else is made from options (manual page, completion) come
 * from that one table.
 *
 *     typedef struct settings {
 *         int64_t batch;
 *         size_t budget_bytes;
 *         int attention;
 *     } settings;
 *
 *     static const plm_option options[] = {
 *         {"batch", PLM_OPTION_COUNT, offsetof(settings, batch), "N", "8", NULL,
 *          "sequences in one update", NULL},
 *         {"budget", PLM_OPTION_SIZE, offsetof(settings, budget_bytes), "SIZE", NULL, NULL,
 *          "the memory that may be used", "PLIMSOLL_BUDGET"},
 *         {"attention", PLM_OPTION_CHOICE, offsetof(settings, attention), "FORM", "fused",
 *          "plain|fused", "how attention is computed", NULL},
 *     };
 *
 * An option is written "--batch 8" or "--batch=8"; after "--" everything is an operand; an option
 * given twice keeps the later value. The command line goes before the environment, the environment
 * before the default. "--help" and "-h" are understood in every syntax and stand in no table.
 *
 * This is the only part of the library that reads the environment. Thread-safe as far as getenv is.
 */
#ifndef PLIMSOLL_OPTIONS_H
#define PLIMSOLL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an option holds; the field's type, what is accepted, and the field's value when there is
 * neither a value nor a default. */
typedef enum plm_option_kind {
    PLM_OPTION_FLAG,    /* bool: no value, being there is true; false */
    PLM_OPTION_SIZE,    /* size_t: bytes as plm_size_parse reads them, at least 1; 0 */
    PLM_OPTION_COUNT,   /* int64_t: at least 1; 0 */
    PLM_OPTION_INTEGER, /* int64_t: at least 0; -1 */
    PLM_OPTION_REAL,    /* double: finite, at least 0; NaN */
    PLM_OPTION_TEXT,    /* const char *: any text, borrowed from argv or the environment; NULL */
    PLM_OPTION_CHOICE   /* int: the place in `choices`, the first is 0; -1 */
} plm_option_kind;

typedef struct plm_option {
    const char *name; /* without the dashes */
    plm_option_kind kind;
    size_t offset;            /* of the field in the settings, of the kind's type */
    const char *value_name;   /* "N", "SIZE", ...; NULL for a flag */
    const char *default_text; /* as a person would write it; NULL: none */
    const char *choices;      /* PLM_OPTION_CHOICE: "plain|fused"; else NULL */
    const char *help;         /* a few words, lower case, no full stop */
    const char *environment;  /* variable that gives a value too (1 or 0 for a flag), or NULL */
} plm_option;

typedef struct plm_syntax {
    const char *command;  /* as it is called: "plimsoll train" */
    const char *summary;  /* what it does, a sentence */
    const char *operands; /* as the usage line shows them: "MODEL", "FILE..."; NULL: none */
    int operands_least;   /* how many must be there */
    int operands_most;    /* at most PLM_OPERANDS_MAX */
    const plm_option *options;
    int64_t option_count;
    const char *example; /* lines that may be typed as they stand, or NULL */
} plm_syntax;

enum { PLM_OPERANDS_MAX = 8 };

typedef struct plm_operands {
    const char *items[PLM_OPERANDS_MAX]; /* borrowed from argv */
    int count;
    bool help; /* --help was asked for: nothing else was looked at, the settings are untouched */
} plm_operands;

/*
 * Reads a command's line: argv[0] is passed over, every field that the table names is set and
 * *operands filled. PLM_ERROR_ARGUMENT for an unknown option (the message names the nearest), a
 * missing, malformed or out of range value, too few or too many operands; settings and operands
 * are then as they were. Texts stay borrowed from argv, the environment and the table.
 */
PLM_MUST_USE plm_status plm_options_parse(const plm_syntax *syntax, int argc, char *const *argv,
                                          void *settings, plm_operands *operands);

/* The value of a variable of the environment, borrowed from it; NULL where there is none, or an
 * empty one. */
const char *plm_environment(const char *variable);

/*
 * *help becomes the text that --help prints: usage, summary, options with defaults, example; owned
 * by the caller, freed with plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_options_help(const plm_syntax *syntax, char **help);

/*
 * *text becomes the command as a subsection of a manual page, in the man macros of roff: usage,
 * summary, options, example. Owned by the caller, freed with plm_free.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_options_manual(const plm_syntax *syntax, char **text);

/*
 * *text becomes what bash is to complete for the command: an arm of a `case` over the commands,
 * without the program's name. It sets `options` to the options' names; by $option, which has just
 * been written, `kind` to flag, value, file, folder or choice and `choices` to a choice's words;
 * and `operands` to file or none. Owned by the caller, freed with plm_free.
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_options_completion(const plm_syntax *syntax, char **text);

#ifdef __cplusplus
}
#endif
#endif
