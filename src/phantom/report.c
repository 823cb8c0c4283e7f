/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in tells: one line when it stops or when a size is not known, and the names that
 * were asked, in the log file where the configuration names one. Nothing else is ever printed: the
 * process is somebody's script. A line goes out in one write, so that lines of several processes
 * do not mix.
 */
#include "phantom/phantom.h"

#include "plimsoll/version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 };

static void write_whole(int file, const char *line, size_t bytes)
{
    while (bytes > 0) {
        ssize_t wrote = write(file, line, bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return; /* nobody can be told that telling failed */
        line += wrote;
        bytes -= (size_t)wrote;
    }
}

static void say(int file, const char *first, const char *format, va_list arguments)
{
    char line[LINE_BYTES];
    int start = snprintf(line, sizeof line, "%s", first);
    int length = vsnprintf(line + start, sizeof line - (size_t)start - 1, format, arguments);
    size_t bytes = (size_t)start + (length > 0 ? (size_t)length : 0);
    if (bytes > sizeof line - 2)
        bytes = sizeof line - 2;
    line[bytes] = '\n';
    write_whole(file, line, bytes + 1);
}

_Noreturn void plm__phantom_stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(STDERR_FILENO, "plimsoll forecast: ", format, arguments);
    va_end(arguments);
    _exit(3);
}

static void tell(int file, const char *first, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(int file, const char *first, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(file, first, format, arguments);
    va_end(arguments);
}

/* Appends "WORD NAME" to the log. */
static void log_name(const char *word, const char *name)
{
    const char *path = plm__phantom_device()->log;
    if (!*path)
        return;
    int saved = errno;
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
        tell(file, word, " %s", name);
        close(file);
    }
    errno = saved;
}

/* Whether the caller is the first to set the flag. */
static bool is_first(bool *asked)
{
    return !__atomic_load_n(asked, __ATOMIC_RELAXED) &&
           !__atomic_exchange_n(asked, true, __ATOMIC_RELAXED);
}

void plm__phantom_note(const char *name, bool *asked)
{
    if (is_first(asked))
        log_name("nothing", name);
}

void plm__phantom_refused(const char *name, bool *asked)
{
    if (is_first(asked))
        log_name("refused", name);
}

void plm__phantom_size_unknown(const char *name, bool *asked)
{
    if (!is_first(asked))
        return;
    tell(STDERR_FILENO, "plimsoll forecast: ",
         "%s asks the GPU for a size that is not known without one, so what follows cannot be "
         "forecast: measure this script on a card, or leave that call out",
         name);
    log_name("size", name);
}

PLM_STANDIN(const char *, plm_phantom_version, (void))
{
    return PLM_VERSION;
}
