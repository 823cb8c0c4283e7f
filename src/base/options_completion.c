/* SPDX-License-Identifier: MIT */
/* A command as bash completes it: an arm of a `case`, read by the script in cli/pages.c. */
#include <string.h>

#include "base/options_internal.h"

/* What may stand after an option, in the script's words. */
static const char *kind_of(const plm_option *option)
{
    if (option->kind == PLM_OPTION_FLAG)
        return "flag";
    if (option->kind == PLM_OPTION_CHOICE)
        return "choice";
    if (option->value_name && strcmp(option->value_name, "FILE") == 0)
        return "file";
    if (option->value_name && strcmp(option->value_name, "DIR") == 0)
        return "folder";
    return "value";
}

static void add_option(plm_text *out, const plm_option *option)
{
    plm__text_add(out, "        --%s) kind=%s", option->name, kind_of(option));
    if (option->kind == PLM_OPTION_CHOICE) {
        plm__text_add(out, " choices='");
        for (const char *choice = option->choices; *choice; choice++)
            plm__text_add_bytes(out, *choice == '|' ? " " : choice, 1);
        plm__text_add(out, "'");
    }
    plm__text_add(out, " ;;\n");
}

plm_status plm_options_completion(const plm_syntax *syntax, char **text)
{
    plm_text out = {0};
    const char *name = strrchr(syntax->command, ' ');
    plm__text_add(&out, "    %s)\n        options='", name ? name + 1 : syntax->command);
    for (int64_t i = 0; i < syntax->option_count; i++)
        plm__text_add(&out, "--%s ", syntax->options[i].name);
    plm__text_add(&out, "--%s'\n        operands=%s\n", plm__option_help.name,
                  syntax->operands ? "file" : "none");
    plm__text_add(&out, "        case $option in\n");
    for (int64_t i = 0; i < syntax->option_count; i++)
        add_option(&out, &syntax->options[i]);
    plm__text_add(&out, "        esac\n        ;;\n");
    return plm__option_text_give(&out, text);
}
