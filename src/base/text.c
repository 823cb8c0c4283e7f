/* SPDX-License-Identifier: MIT */
/* Growing text with a sticky failure. */
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

#include "base/number.h"

static bool reserve(plm_text *text, int64_t more)
{
    if (text->status == PLM_OK)
        text->status = PLM_ARRAY_RESERVE(text, text->count + more + 1);
    return text->status == PLM_OK;
}

void plm__text_add_bytes(plm_text *text, const char *bytes, int64_t count)
{
    if (!reserve(text, count))
        return;
    memcpy(text->items + text->count, bytes, (size_t)count);
    text->count += count;
    text->items[text->count] = '\0';
}

void plm__text_add(plm_text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = plm__print_list(NULL, 0, format, arguments);
    va_end(arguments);
    PLM_BUG_IF(length < 0, "unprintable format '%s'", format);
    if (reserve(text, length)) {
        plm__print_list(text->items + text->count, (size_t)length + 1, format, again);
        text->count += length;
    }
    va_end(again);
}

void plm__text_repeat(plm_text *text, const char *what, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        plm__text_add_bytes(text, what, (int64_t)strlen(what));
}

plm_status plm__text_status(const plm_text *text)
{
    return text->status;
}

void plm__text_fini(plm_text *text)
{
    PLM_ARRAY_FREE(text);
    text->status = PLM_OK;
}
