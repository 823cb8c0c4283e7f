/* SPDX-License-Identifier: MIT */
/*
 * Numbers with a fraction as text, always with a point. A program that the library is part of may
 * have chosen a locale in which printf writes "1,5" and strtod stops at the point; what the library
 * prints and reads is the same everywhere. Whatever may hold such a number goes through here. The
 * program's locale is as it was afterwards, and other threads never see another.
 */
#ifndef PLM_BASE_NUMBER_H
#define PLM_BASE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

/* As snprintf and vsnprintf. */
int plm__print(char *text, size_t room, const char *format, ...) PLM_PRINTF(3, 4);
int plm__print_list(char *text, size_t room, const char *format, va_list arguments)
    PLM_PRINTF(3, 0);

/* As strtod. */
double plm__number_read(const char *text, char **end);

#endif
