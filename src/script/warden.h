/* SPDX-License-Identifier: MIT */
/* The process between ours and the programs, and what it says. */
#ifndef PLM_SCRIPT_WARDEN_H
#define PLM_SCRIPT_WARDEN_H

#include <signal.h>

#include "script/script.h"

typedef enum plm_warden_kind {
    PLM_WARDEN_BEGINS,     /* with the folder in memory, when there is one */
    PLM_WARDEN_NO_COVER,   /* number: errno */
    PLM_WARDEN_CANNOT_RUN, /* number: errno */
    PLM_WARDEN_ENDED       /* number: exit status of the first program that failed, or 0 */
} plm_warden_kind;

/* One packet of the channel, which closes itself at an exec. */
typedef struct plm_warden_message {
    plm_warden_kind kind;
    int number;
    bool timed_out;
} plm_warden_message;

/* What the warden waits for, to be blocked before the fork. An interrupt or a hang-up that whoever
 * started us ignores, as under nohup, is not of them. */
sigset_t plm__warden_signals(void);

/* Behind the fork, with those signals blocked: does not return. */
_Noreturn void plm__warden_be(const plm_script *scripts, int count,
                              const plm_script_options *options, int channel);

#endif
