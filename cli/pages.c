/* SPDX-License-Identifier: MIT */
/*
 * The manual page and the bash completion: a frame round what each command says of itself, so that
 * they know every command of the table and every option, and no other.
 */
#include <stdio.h>

#include "cli.h"
#include "plimsoll/version.h"

enum { NAME_BYTES = 32 }; /* of a command or a form of help, written where argv may be */

/* Lets every command print one form of its help. */
static int print_each(const cli_command *commands, const char *form)
{
    int exit_status = CLI_DONE;
    for (const cli_command *command = commands; command->name && !exit_status; command++) {
        char name[NAME_BYTES], word[NAME_BYTES];
        snprintf(name, sizeof name, "%s", command->name);
        snprintf(word, sizeof word, "%s", form);
        exit_status = command->run(2, (char *[]){name, word, NULL});
    }
    return exit_status;
}

static const char manual_begin[] =
    ".SH SYNOPSIS\n"
    "\\fBplimsoll\\fR \\fICOMMAND\\fR [\\fIoptions\\fR]\n"
    ".SH DESCRIPTION\n"
    "The user states a budget; Plimsoll plans inside it, knows the peak to the byte before a run\n"
    "starts, and says for every byte which operation of which layer holds it, what its shape is,\n"
    "why it is kept and until when. Its instruments read the memory of PyTorch runs too.\n"
    ".PP\n"
    "Sizes are written as 12GiB, 512MiB, 12GB or 4096B. A value is written as \\-\\-batch 8 or\n"
    "\\-\\-batch=8; after \\-\\- everything is an operand. Where an option names an environment\n"
    "variable, the command line goes before the environment and that before the default.\n"
    ".SH COMMANDS\n";

static const char manual_end[] =
    ".SH ENVIRONMENT\n"
    ".TP\n"
    "\\fBNO_COLOR\\fR\n"
    "when set and not empty, tables and charts are printed without colour\n"
    ".SH EXIT STATUS\n"
    "0 done; 1 the answer is no (a budget that is too small, a check that failed); 2 wrong use or\n"
    "bad input; 3 the machine or the program failed. Messages go to standard error.\n";

int cli_print_manual(const cli_command *commands)
{
    printf(".\\\" Made by the program from its option tables: plimsoll --help=man\n"
           ".TH PLIMSOLL 1 \"\" \"plimsoll %s\" \"User Commands\"\n.nh\n.ad l\n"
           ".SH NAME\nplimsoll \\- %s\n%s",
           plm_version(), "train transformers inside a memory budget; explain every byte",
           manual_begin);
    for (const cli_command *command = commands; command->name; command++)
        printf(".TP\n\\fB%s\\fR\n%s\n", command->name, command->summary);
    int exit_status = print_each(commands, CLI_HELP_MANUAL);
    fputs(manual_end, stdout);
    return exit_status;
}

/*
 * Bash cuts words at '=' as well, so "--attention=pl" is three of them. `option` is the option
 * whose value is being written, if one is. Each command's arm sets what plm_options_completion
 * promises.
 */
static const char completion_begin[] =
    "    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local options='' operands=none kind=flag choices='' i\n"
    "    COMPREPLY=()\n"
    "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    if [[ $word == '=' ]]; then\n"
    "        word=''\n"
    "    elif [[ $option == '=' ]]; then\n"
    "        option=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    case ${COMP_WORDS[1]} in\n";

static const char completion_end[] =
    "    esac\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        if [[ ${COMP_WORDS[i]} == -- ]]; then kind=file options=''; fi\n"
    "    done\n"
    "    if [[ $kind == flag && $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    if [[ $kind == flag ]]; then kind=$operands; fi\n"
    "    case $kind in\n"
    "    choice) mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$word\") ;;\n"
    "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "    esac\n"
    "    if [[ $kind == file || $kind == folder ]]; then compopt -o filenames 2>/dev/null; fi\n"
    "}\n"
    "complete -F _plimsoll plimsoll\n";

int cli_print_completion(const cli_command *commands)
{
    fputs("# Made by the program from its option tables: plimsoll --help=bash\n"
          "_plimsoll()\n{\n    local commands='",
          stdout);
    for (const cli_command *command = commands; command->name; command++)
        printf("%s ", command->name);
    printf("--help --version'\n%s", completion_begin);
    int exit_status = print_each(commands, CLI_HELP_COMPLETION);
    fputs(completion_end, stdout);
    return exit_status;
}
