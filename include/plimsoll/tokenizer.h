/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens and back, as a model's own tokenizer.json says.
 *
 * Terms. A *token* is a piece of text that a model knows by a number, its *id*. *Encoding* makes
 * ids of a text, *decoding* makes a text of ids. A *piece* is a token as the file writes it
 * ("Ġthe", "▁the", "##ing"). *Special* tokens stand for no text: a start, an end, padding.
 *
 *     plm_tokenizer *tokenizer = NULL;
 *     plm_encoding encoding = {0};
 *     if (plm_tokenizer_create("models/llama", &tokenizer) == PLM_OK &&
 *         plm_tokenizer_encode(tokenizer, text, strlen(text), PLM_ENCODE_SPECIAL, &encoding) ==
 * PLM_OK)
 *         ... encoding.ids[0 .. encoding.count - 1] ...
 *     plm_encoding_fini(&encoding);
 *     plm_tokenizer_destroy(tokenizer);
 *
 * What is read: the JSON of Hugging Face's `tokenizers`. Models: BPE (over bytes, or over
 * characters with bytes for those that are missing), Unigram, WordPiece, WordLevel; their
 * normalizers, pre-tokenizers, added tokens, templates and decoders. Ids are those of that package.
 * Of the file `truncation` and `padding` are passed over, as a text is whole and how it is packed
 * is not the tokenizer's; a model with dropout is refused.
 *
 * Texts are UTF-8. What is none is refused: the package cannot be given such a text either. Any
 * other character is allowed, NUL too. Decoding gives UTF-8 always: bytes that are none become
 * U+FFFD.
 *
 * Time grows as n log n with a text of n bytes whatever it is, but for regular expressions that a
 * file brings along: those that go back without end meet a limit, which is an error.
 *
 * Threads: a tokenizer never changes and may be used by many threads at once. What a thread works
 * with (some megabytes, and the words it has seen) is kept for the next call.
 */
#ifndef PLIMSOLL_TOKENIZER_H
#define PLIMSOLL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plm_tokenizer plm_tokenizer;

#define PLM_TOKENIZER_FILE "tokenizer.json"

/* The longest text that is encoded in one call, in bytes. */
#define PLM_TOKENIZER_TEXT_MAX ((size_t)1 << 30)

/*
 * Reads a tokenizer: a tokenizer.json, or a folder that holds one. A tokenizer_config.json beside
 * it says which special tokens are what (plm_tokenizer_special); without one they are not known.
 * *tokenizer is then the caller's, to be destroyed. PLM_ERROR_IO for a file that is missing or
 * unreadable; PLM_ERROR_FORMAT for one that is malformed, names file and place;
 * PLM_ERROR_UNSUPPORTED; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_tokenizer_create(const char *path, plm_tokenizer **tokenizer);

/* The same from memory; `name` stands for the file in messages, and nothing is beside it. */
PLM_MUST_USE plm_status plm_tokenizer_create_from_memory(const char *name, const void *bytes,
                                                         size_t byte_count,
                                                         plm_tokenizer **tokenizer);

/* Ends it; NULL is allowed. No thread uses it any more. */
void plm_tokenizer_destroy(plm_tokenizer *tokenizer);

/* Where a token comes from. */
typedef struct plm_piece {
    const char *text; /* NUL-ended; a NUL may stand inside too */
    size_t byte_count;
    size_t start, end; /* bytes of the encoded text; 0, 0 for special tokens that were put there.
                          Whole characters: tokens that share one share its bytes. */
} plm_piece;

typedef struct plm_encoding {
    int32_t *ids;      /* [count] */
    plm_piece *pieces; /* [count], NULL unless PLM_ENCODE_PIECES */
    int64_t count;
    char *texts; /* of the pieces */
} plm_encoding;

/* What is wanted of an encoding. */
enum {
    PLM_ENCODE_SPECIAL = 1, /* the special tokens that the file's template puts round a text */
    PLM_ENCODE_PIECES = 2   /* pieces too */
};

/*
 * *encoding becomes the tokens of a text, to be ended by plm_encoding_fini; what it held is not
 * looked at. Special tokens that stand written in the text are found either way.
 * PLM_ERROR_ARGUMENT for a text that is no UTF-8 or longer than PLM_TOKENIZER_TEXT_MAX;
 * PLM_ERROR_FORMAT where the model has no token for a part of the text and none for what is
 * unknown; PLM_ERROR_UNSUPPORTED for a regular expression that met its limit;
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_tokenizer_encode(const plm_tokenizer *tokenizer, const char *text,
                                             size_t byte_count, unsigned wanted,
                                             plm_encoding *encoding);

/* The same of a file's text; *byte_count, which may be NULL, becomes its length. PLM_ERROR_IO too.
 */
PLM_MUST_USE plm_status plm_tokenizer_encode_file(const plm_tokenizer *tokenizer, const char *path,
                                                  unsigned wanted, plm_encoding *encoding,
                                                  size_t *byte_count);

/*
 * *line becomes an encoding as one line of JSON: `ids`, and where there are pieces `pieces` (texts)
 * and `offsets` (pairs of bytes); to be freed with plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_encoding_json(const plm_encoding *encoding, char **line);

/* Ends an encoding; a zeroed one is allowed. */
void plm_encoding_fini(plm_encoding *encoding);

/*
 * *text becomes what `count` ids stand for, NUL-ended UTF-8 of *byte_count bytes without the NUL,
 * to be freed with plm_free. An id that names no token adds nothing; `skip_special` leaves special
 * tokens out. PLM_ERROR_HOST_MEMORY, PLM_ERROR_UNSUPPORTED as encoding.
 */
PLM_MUST_USE plm_status plm_tokenizer_decode(const plm_tokenizer *tokenizer, const int32_t *ids,
                                             int64_t count, bool skip_special, char **text,
                                             size_t *byte_count);

/* Ids that were read. */
typedef struct plm_id_list {
    int32_t *ids; /* [count], to be freed with plm_free */
    int64_t count;
} plm_id_list;

/*
 * *list becomes the ids that a person wrote, parted by commas or blanks. PLM_ERROR_ARGUMENT for
 * what is no number, and for an id that names no token; PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_tokenizer_read_ids(const plm_tokenizer *tokenizer, const char *text,
                                               plm_id_list *list);

/* *line becomes {"text": ...}, one line of JSON, of a text that was decoded; to be freed with
 * plm_free. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_decoded_json(const char *text, size_t byte_count, char **line);

/* How many tokens there are, added ones too. */
int64_t plm_tokenizer_count(const plm_tokenizer *tokenizer);

/* One more than the greatest id: a model's table of tokens has at least so many rows. */
int32_t plm_tokenizer_id_limit(const plm_tokenizer *tokenizer);

/* The piece of an id, NUL-ended and borrowed, *byte_count its bytes; NULL for an id that names no
 * token. */
const char *plm_tokenizer_token(const plm_tokenizer *tokenizer, int32_t id, size_t *byte_count);

/* The id of a piece of `byte_count` bytes, -1: there is none. */
int32_t plm_tokenizer_find(const plm_tokenizer *tokenizer, const char *piece, size_t byte_count);

/* Whether an id is a special token's. */
bool plm_tokenizer_is_special(const plm_tokenizer *tokenizer, int32_t id);

/* What special tokens are for; the names are those of tokenizer_config.json. */
typedef enum plm_special {
    PLM_SPECIAL_BOS,
    PLM_SPECIAL_EOS,
    PLM_SPECIAL_UNK,
    PLM_SPECIAL_PAD,
    PLM_SPECIAL_SEP,
    PLM_SPECIAL_CLS,
    PLM_SPECIAL_MASK,
    PLM_SPECIAL_COUNT
} plm_special;

/* The id of a special token, -1: the model has none, or no tokenizer_config.json says which. */
int32_t plm_tokenizer_special(const plm_tokenizer *tokenizer, plm_special special);

#ifdef __cplusplus
}
#endif
#endif
