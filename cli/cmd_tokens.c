/* SPDX-License-Identifier: MIT */
/* plimsoll tokens: a text as the tokens of a model, and tokens as text. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plimsoll/tokenizer.h"

typedef struct tokens_options {
    const char *file;
    const char *decode;
    bool no_special;
    bool json;
} tokens_options;

static const plm_option options[] = {
    {"file", PLM_OPTION_TEXT, offsetof(tokens_options, file), "FILE", NULL, NULL,
     "the text of a file", NULL},
    {"decode", PLM_OPTION_TEXT, offsetof(tokens_options, decode), "IDS", NULL, NULL,
     "the text of ids, parted by commas or blanks", NULL},
    {"no-special", PLM_OPTION_FLAG, offsetof(tokens_options, no_special), NULL, NULL, NULL,
     "without the special tokens that the model wants round a text", NULL},
    {"json", PLM_OPTION_FLAG, offsetof(tokens_options, json), NULL, NULL, NULL,
     "one JSON object on one line", NULL},
};

static const plm_syntax syntax = {
    .command = "plimsoll tokens",
    .summary = "Shows a text as the tokens of a model, whose tokenizer.json MODEL is or holds, or "
               "decodes ids into text.",
    .operands = "MODEL [TEXT]",
    .operands_least = 1,
    .operands_most = 2,
    CLI_OPTIONS(options),
    .example = "plimsoll tokens models/llama \"Hello, world!\"",
};

/* Characters that would move a terminal's cursor, as escapes. */
static void print_piece(const plm_piece *piece)
{
    for (size_t i = 0; i < piece->byte_count; i++) {
        unsigned char c = (unsigned char)piece->text[i];
        if (c < ' ' || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

static void print_encoding(const plm_encoding *encoding, size_t byte_count)
{
    for (int64_t i = 0; i < encoding->count; i++) {
        printf("%8d  ", encoding->ids[i]);
        print_piece(&encoding->pieces[i]);
        putchar('\n');
    }
    printf("%lld tokens of %zu bytes\n", (long long)encoding->count, byte_count);
}

static plm_status encode(const plm_tokenizer *tokenizer, const tokens_options *o, const char *text)
{
    plm_encoding encoding = {0};
    char *line = NULL;
    size_t byte_count = text ? strlen(text) : 0;
    unsigned wanted = PLM_ENCODE_PIECES | (o->no_special ? 0 : PLM_ENCODE_SPECIAL);
    plm_status status =
        text ? plm_tokenizer_encode(tokenizer, text, byte_count, wanted, &encoding)
             : plm_tokenizer_encode_file(tokenizer, o->file, wanted, &encoding, &byte_count);
    if (status == PLM_OK && o->json) {
        status = plm_encoding_json(&encoding, &line);
        status = cli_print(status, line, true);
    } else if (status == PLM_OK) {
        print_encoding(&encoding, byte_count);
    }
    plm_encoding_fini(&encoding);
    return status;
}

static int decode(const plm_tokenizer *tokenizer, const tokens_options *o)
{
    plm_id_list ids = {0};
    char *text = NULL;
    size_t byte_count = 0;
    plm_status status = plm_tokenizer_read_ids(tokenizer, o->decode, &ids);
    if (status == PLM_OK)
        status =
            plm_tokenizer_decode(tokenizer, ids.ids, ids.count, o->no_special, &text, &byte_count);
    if (status == PLM_OK && o->json) {
        char *line = NULL;
        status = plm_decoded_json(text, byte_count, &line);
        status = cli_print(status, line, true);
    } else if (status == PLM_OK) {
        fwrite(text, 1, byte_count, stdout);
        putchar('\n');
    }
    plm_free(text);
    plm_free(ids.ids);
    return cli_finish(status);
}

int cmd_tokens(int argc, char **argv)
{
    tokens_options o;
    plm_operands operands;
    plm_tokenizer *tokenizer = NULL;
    int exit_status;
    if (!cli_parse(&syntax, argc, argv, &o, &operands, &exit_status))
        return exit_status;
    const char *text = operands.count == 2 ? operands.items[1] : NULL;
    if ((text != NULL) + (o.file != NULL) + (o.decode != NULL) != 1)
        return cli_wrong("tokens wants one of TEXT, --file FILE and --decode IDS behind MODEL");
    plm_status status = plm_tokenizer_create(operands.items[0], &tokenizer);
    if (status != PLM_OK)
        return cli_finish(status);
    exit_status = o.decode ? decode(tokenizer, &o) : cli_finish(encode(tokenizer, &o, text));
    plm_tokenizer_destroy(tokenizer);
    return exit_status;
}
