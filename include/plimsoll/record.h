/* SPDX-License-Identifier: MIT */
/*
 * Recording a PyTorch program's memory without editing it.
 *
 * The recorder is a Python file that this library carries inside. Preparing writes it into a folder
 * and makes the environment under which any command, and every Python process that it starts,
 * records itself: a snapshot and a JSON record beside it, one of each a rank, at an out-of-memory
 * error, after a step, on a signal or at the end. The program's own error goes on unchanged.
 *
 *     char **environment = NULL;
 *     if (plm_record_prepare(&settings, environ, &environment) == PLM_OK)
 *         execvpe(command[0], command, environment);
 *
 * Thread-safe as long as no two threads prepare one folder.
 */
#ifndef PLIMSOLL_RECORD_H
#define PLIMSOLL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLM_RECORD_ENTRIES_TEXT "100000" /* the default of `entries`, as text for an option */

typedef struct plm_record_settings {
    const char *out;    /* folder for the files; made with those above it */
    int64_t entries;    /* memory events that PyTorch keeps; older ones are lost */
    int64_t at_step;    /* also write after so many calls of an optimizer's step; 0: no */
    bool on_exit;       /* also write when a process ends by itself */
    const char *stacks; /* "python", or "all" for C++ frames too */
    const char *signal; /* "USR1" or "USR2": also write on this signal; "none" */
} plm_record_settings;

/*
 * Writes the recorder to the folder `out`/python and sets *prepared to `environment` with what the
 * recorder needs in place, NULL-ended like it. The calling process is taken for the one that will
 * become the command. Entries that did not change are borrowed from `environment`; the rest goes
 * with plm_free. PLM_ERROR_IO when the folder cannot be written.
 */
PLM_MUST_USE plm_status plm_record_prepare(const plm_record_settings *settings,
                                           char *const *environment, char ***prepared);

#ifdef __cplusplus
}
#endif
#endif
