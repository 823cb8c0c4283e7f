/* SPDX-License-Identifier: MIT */
/* What every refusal of a reader owes: its status in the record, and a message of one line. */
#ifndef PLM_FUZZ_TOLD_H
#define PLM_FUZZ_TOLD_H

#include <stdbool.h>
#include <string.h>

#include "plimsoll/status.h"

static inline bool is_told_in_one_line(plm_status status)
{
    plm_error error;
    plm_error_get(&error);
    return error.status == status && error.message[0] && !strpbrk(error.message, "\n\r\033");
}

#endif
