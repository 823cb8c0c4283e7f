/* SPDX-License-Identifier: MIT */
/*
 * The thread's failure record. It is the only thread-local state of the library: a failure travels
 * up as a status, its detail waits here until somebody asks.
 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

static _Thread_local plm_error last_error;

static const struct {
    const char *name;
    const char *text;
} status_table[PLM_STATUS_COUNT] = {
#define STATUS_ROW(name_, text_) [PLM_##name_] = {#name_, text_},
    PLM_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
};

const char *plm_status_name(plm_status status)
{
    return (unsigned)status < PLM_STATUS_COUNT ? status_table[status].name : "UNKNOWN";
}

const char *plm_status_text(plm_status status)
{
    return (unsigned)status < PLM_STATUS_COUNT ? status_table[status].text : "unknown status";
}

void plm_error_get(plm_error *error)
{
    *error = last_error;
}

/* A message is one line, and moves no cursor, whatever the names and files that it quotes hold. */
static void flatten(char *message)
{
    for (; *message; message++)
        if ((unsigned char)*message < 0x20 || *message == 0x7f)
            *message = '?';
}

void plm__fail_at(const char *file, int line, plm_status status, const char *format, ...)
{
    PLM_ASSERT(status != PLM_OK);
    memset(&last_error, 0, sizeof last_error);
    last_error.status = status;
#ifndef NDEBUG
    last_error.file = file;
    last_error.line = line;
#else
    (void)file;
    (void)line;
#endif
    va_list arguments;
    va_start(arguments, format);
    plm__print_list(last_error.message, sizeof last_error.message, format, arguments);
    va_end(arguments);
    flatten(last_error.message);
}

void plm__fail_oom(const plm_oom_record *oom)
{
    last_error.oom = *oom;
}

void plm__fail_system(int error)
{
    last_error.system_error = error;
}

plm_status plm__fail_hint(plm_hint hint)
{
    last_error.hint = hint;
    return last_error.status;
}

void plm__fail_again(const plm_error *error)
{
    last_error = *error;
}

void plm__bug_at(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "plimsoll: bug at %s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}
