/* SPDX-License-Identifier: MIT */
/*
 * A command as a subsection of a manual page. Roff reads a line that begins with a point or an
 * apostrophe as a request and a backslash as an escape; a bare hyphen may be printed as a dash that
 * cannot be pasted. Every text of a table goes through add_roff, which lets none of that happen.
 */
#include <string.h>

#include "base/options_internal.h"

static void add_roff(plm_text *out, const char *text)
{
    bool line_begins = true;
    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            plm__text_add(out, "\\&");
        if (*text == '\\')
            plm__text_add(out, "\\e");
        else if (*text == '-')
            plm__text_add(out, "\\-");
        else
            plm__text_add_bytes(out, text, 1);
        line_begins = *text == '\n';
    }
}

static void add_option(plm_text *out, const plm_option *option)
{
    plm_text help = {0};
    plm__text_add(out, ".TP\n\\fB\\-\\-");
    add_roff(out, option->name);
    plm__text_add(out, "\\fR");
    if (option->value_name) {
        plm__text_add(out, " \\fI");
        add_roff(out, option->value_name);
        plm__text_add(out, "\\fR");
    }
    plm__text_add(out, "\n");
    plm__option_describe(&help, option);
    if (plm__text_status(&help) != PLM_OK)
        out->status = PLM_ERROR_HOST_MEMORY;
    else
        add_roff(out, help.items);
    plm__text_add(out, "\n");
    plm__text_fini(&help);
}

/* The example's lines are indented by two blanks after the first, for --help. */
static void add_example(plm_text *out, const char *example)
{
    plm__text_add(out, ".PP\nExample:\n.PP\n.RS 4\n.nf\n");
    for (const char *line = example; *line;) {
        plm_text one = {0};
        int64_t length = (int64_t)strcspn(line, "\n");
        plm__text_add_bytes(&one, line, length);
        if (plm__text_status(&one) != PLM_OK)
            out->status = PLM_ERROR_HOST_MEMORY;
        else
            add_roff(out, one.items);
        plm__text_add(out, "\n");
        plm__text_fini(&one);
        line += length;
        line += strspn(line, "\n ");
    }
    plm__text_add(out, ".fi\n.RE\n");
}

plm_status plm_options_manual(const plm_syntax *syntax, char **text)
{
    plm_text out = {0};
    plm__text_add(&out, ".SS \"");
    add_roff(&out, syntax->command);
    if (syntax->operands) {
        plm__text_add(&out, " ");
        add_roff(&out, syntax->operands);
    }
    plm__text_add(&out, " [options]\"\n");
    add_roff(&out, syntax->summary);
    plm__text_add(&out, "\n");
    for (int64_t i = 0; i < syntax->option_count; i++)
        add_option(&out, &syntax->options[i]);
    add_option(&out, &plm__option_help);
    if (syntax->example)
        add_example(&out, syntax->example);
    return plm__option_text_give(&out, text);
}
