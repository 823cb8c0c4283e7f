/* SPDX-License-Identifier: MIT */
/*
 * How threads wait for each other. OpenMP's threads spin while they wait, for milliseconds: on a
 * machine that does other work too, each waits for one that is not running, and a run takes ten
 * times as long. OMP_WAIT_POLICY says otherwise, but is read only when the program is loaded.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

/* Whether the environment says how to wait; a failure to tell is a yes. */
static bool is_settled(void)
{
    static const plm_option table[] = {
        {.name = "wait", .kind = PLM_OPTION_TEXT, .offset = 0, .environment = "OMP_WAIT_POLICY"},
        {.name = "spin",
         .kind = PLM_OPTION_TEXT,
         .offset = sizeof(const char *),
         .environment = "GOMP_SPINCOUNT"},
    };
    static const plm_syntax syntax = {.command = "plimsoll", .options = table, .option_count = 2};
    const char *found[2];
    plm_operands operands;
    char *const none[] = {NULL};
    return plm_options_parse(&syntax, 1, none, found, &operands) != PLM_OK || found[0] || found[1];
}

void cli_let_threads_sleep(char **argv)
{
    if (is_settled() || setenv("OMP_WAIT_POLICY", "passive", 0) != 0)
        return;
    execv("/proc/self/exe", argv); /* where that fails, the run is only slower */
}
