/* SPDX-License-Identifier: MIT */
/* The C locale for one thread and one call. It is made once and stays. */
#include "base/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* 0 where there was no memory for it: the program's stays in force */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Puts the C locale in force for this thread; what uselocale takes to undo it. */
static locale_t begin(void)
{
    pthread_once(&once, make_locale);
    return c_locale ? uselocale(c_locale) : (locale_t)0;
}

static void end(locale_t before)
{
    if (before)
        uselocale(before);
}

int plm__print_list(char *text, size_t room, const char *format, va_list arguments)
{
    locale_t before = begin();
    int length = vsnprintf(text, room, format, arguments);
    end(before);
    return length;
}

int plm__print(char *text, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = plm__print_list(text, room, format, arguments);
    va_end(arguments);
    return length;
}

double plm__number_read(const char *text, char **last)
{
    locale_t before = begin();
    double number = strtod(text, last);
    end(before);
    return number;
}
