/* SPDX-License-Identifier: MIT */
/* The text of --help, laid out from a syntax: names in one column, wrapped help in the other. */
#include <string.h>

#include "base/options_internal.h"

const plm_option plm__option_help = {.name = "help", .help = "print this text"};

enum {
    LINE_COLUMNS = 80, /* a line of help ends before this */
    NAME_COLUMNS = 26  /* a longer name takes a line of its own */
};

/* Words from `text`, broken at blanks, each further line indented to `indent`. `column` is where
 * the text begins. */
static void add_wrapped(plm_text *out, const char *text, int64_t column, int64_t indent)
{
    while (*text) {
        int64_t length = (int64_t)strcspn(text, " ");
        if (column > indent && column + 1 + length > LINE_COLUMNS) {
            plm__text_add_bytes(out, "\n", 1);
            plm__text_repeat(out, " ", indent);
            column = indent;
        } else if (column > indent) {
            plm__text_add_bytes(out, " ", 1);
            column += 1;
        }
        plm__text_add_bytes(out, text, length);
        column += length;
        text += length + strspn(text + length, " ");
    }
}

void plm__option_describe(plm_text *out, const plm_option *option)
{
    plm__text_add(out, "%s", option->help);
    if (option->kind == PLM_OPTION_CHOICE) {
        plm__text_add(out, ": ");
        for (const char *choice = option->choices;; choice++) {
            int64_t length = (int64_t)strcspn(choice, "|");
            plm__text_add_bytes(out, choice, length);
            choice += length;
            if (*choice == '\0')
                break;
            plm__text_add(out, strchr(choice + 1, '|') ? ", " : " or ");
        }
    }
    const char *value = option->default_text && *option->default_text ? option->default_text : NULL;
    if (value && option->environment)
        plm__text_add(out, " (default %s, or $%s)", value, option->environment);
    else if (value)
        plm__text_add(out, " (default %s)", value);
    else if (option->environment)
        plm__text_add(out, " (or $%s)", option->environment);
}

static void add_option(plm_text *out, const plm_option *option)
{
    plm_text name = {0}, help = {0};
    plm__text_add(&name, "  --%s%s%s", option->name, option->value_name ? " " : "",
                  option->value_name ? option->value_name : "");
    plm__option_describe(&help, option);
    if (name.status != PLM_OK || help.status != PLM_OK) {
        out->status = PLM_ERROR_HOST_MEMORY;
    } else {
        plm__text_add_bytes(out, name.items, name.count);
        if (name.count + 2 > NAME_COLUMNS)
            plm__text_add(out, "\n%*s", NAME_COLUMNS, "");
        else
            plm__text_repeat(out, " ", NAME_COLUMNS - name.count);
        add_wrapped(out, help.items, NAME_COLUMNS, NAME_COLUMNS);
        plm__text_add(out, "\n");
    }
    plm__text_fini(&name);
    plm__text_fini(&help);
}

plm_status plm_options_help(const plm_syntax *syntax, char **help)
{
    plm_text out = {0};
    const char *operands = syntax->operands ? syntax->operands : "";
    bool last = strncmp(operands, "--", 2) == 0; /* what follows -- is no option */
    plm__text_add(&out, last ? "usage: %s [options]%s%s\n\n" : "usage: %s%s%s [options]\n\n",
                  syntax->command, *operands ? " " : "", operands);
    add_wrapped(&out, syntax->summary, 0, 0);
    plm__text_add(&out, "\n\noptions:\n");
    for (int64_t i = 0; i < syntax->option_count; i++)
        add_option(&out, &syntax->options[i]);
    add_option(&out, &plm__option_help);
    if (syntax->example)
        plm__text_add(&out, "\nexample:\n  %s\n", syntax->example);
    return plm__option_text_give(&out, help);
}

plm_status plm__option_text_give(plm_text *out, char **text)
{
    if (plm__text_status(out) != PLM_OK) {
        plm__text_fini(out);
        return PLM_ERROR_HOST_MEMORY;
    }
    *text = out->items; /* the text's storage is a host block of its own */
    return PLM_OK;
}
