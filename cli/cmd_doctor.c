/* SPDX-License-Identifier: MIT */
/* plimsoll doctor: from what is left of a run to its cause. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/doctor.h"

typedef struct doctor_options {
    const char *message;
    bool json;
} doctor_options;

static const plm_option options[] = {
    {"message", PLM_OPTION_TEXT, offsetof(doctor_options, message), "FILE", NULL, NULL,
     "a file or log with the out-of-memory message; - is standard input", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(doctor_options, json), NULL, NULL, NULL,
     "one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll doctor",
    .summary = "Says what an out-of-memory message proves, what it cannot tell, and what to do "
               "next. The message may be pasted as an operand, or be the last one in a log.",
    .operands = "[TEXT]",
    .operands_most = 1,
    CLI_OPTIONS(options),
    .example = "plimsoll doctor --message train.log",
};

int cmd_doctor(int argc, char **argv)
{
    doctor_options o;
    plm_operands operands;
    plm_oom_report report;
    char *text = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &o, &operands, &exit_status))
        return exit_status;
    if ((o.message != NULL) == (operands.count == 1))
        return cli_wrong("doctor wants --message FILE (- is standard input) or the message's text");
    plm_status status =
        o.message ? plm_oom_read_file(o.message, &report)
                  : plm_oom_read_text(operands.items[0], strlen(operands.items[0]), &report);
    if (status == PLM_OK)
        status = o.json ? plm_oom_report_json(&report, &text)
                        : plm_oom_report_text(&report, cli_style(0), &text);
    return cli_finish(cli_print(status, text, o.json));
}
