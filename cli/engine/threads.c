/* SPDX-License-Identifier: MIT */
/*
 * How threads wait for each other. OpenMP's threads spin while they wait, for milliseconds: on a
 * machine that does other work too, each waits for one that is not running, and a run takes ten
 * times as long. OMP_WAIT_POLICY says otherwise, but is read only when the program is loaded.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

void cli_let_threads_sleep(char **argv)
{
    if (plm_environment("OMP_WAIT_POLICY") || plm_environment("GOMP_SPINCOUNT") ||
        setenv("OMP_WAIT_POLICY", "passive", 0) != 0)
        return;
    execv("/proc/self/exe", argv); /* where that fails, the run is only slower */
}
