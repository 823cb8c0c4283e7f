/* SPDX-License-Identifier: MIT */
/*
 * Reads the real cuDNN's log as its callback hands it over. It allocates nothing and knows of no
 * descriptor; which lines it is given is cudnn_rejected.c's affair.
 */
#include "phantom/cudnn_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDLE_BYTES = 32 };

int plm__cudnn_rejected_engine(const char *lines)
{
    static const char key[] = "{\"engineId\":";
    for (; *lines; lines += strlen(lines) + 1) {
        const char *at = strstr(lines, "engineConfig:") ? strstr(lines, key) : NULL;
        if (at)
            return (int)strtol(at + sizeof key - 1, NULL, 10);
    }
    return 0;
}

bool plm__cudnn_tells_rejection(const char *lines, int engine)
{
    char needle[NEEDLE_BYTES];
    snprintf(needle, sizeof needle, "{\"engineId\":%d,", engine);
    for (; *lines; lines += strlen(lines) + 1)
        if (strstr(lines, "engineConfig:") && strstr(lines, needle))
            return true;
    return false;
}
