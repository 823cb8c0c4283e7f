/* SPDX-License-Identifier: MIT */
/* The public face: making tokenizers, and asking them for tokens. Encoding is in encode.c. */
#include "tokens/tokenizer_internal.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/utf8.h"
#include "tokens/encode.h"

enum { PATH_TEXT = 4096 };

/* A tokenizer without parts. */
static plm_status begin(plm_tokenizer **tokenizer)
{
    plm_tokenizer *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    pthread_mutex_init(&made->lock, NULL);
    *tokenizer = made;
    return PLM_OK;
}

plm_status plm_tokenizer_create_from_memory(const char *name, const void *bytes, size_t byte_count,
                                            plm_tokenizer **tokenizer)
{
    plm_tokenizer *made = NULL;
    PLM_TRY(begin(&made));
    plm_status status = plm__tokenizer_read(name, bytes, byte_count, made);
    return PLM_HAND_OVER(status, made, plm_tokenizer_destroy, tokenizer);
}

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static plm_status join(const char *folder, const char *name, char path[PATH_TEXT])
{
    int length = snprintf(path, PATH_TEXT, "%s%s%s", folder, *folder ? "/" : "", name);
    PLM_FAIL_IF(length >= PATH_TEXT, PLM_ERROR_ARGUMENT,
                "wanted a path of less than %d bytes, found %d", PATH_TEXT, length);
    return PLM_OK;
}

/* Reads the configuration in the folder of `path`, where there is one. */
static plm_status read_config(const char *path, plm_tokenizer *tokenizer)
{
    char folder[PATH_TEXT], config[PATH_TEXT];
    plm_file file = {0};
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    PLM_TRY(join(folder[0] ? folder : "/", "tokenizer_config.json", config));
    struct stat found;
    if (stat(config, &found) != 0)
        return PLM_OK;
    PLM_TRY(plm__file_map(config, &file));
    plm_status status = plm__tokenizer_read_config(config, file.bytes, file.byte_count, tokenizer);
    plm__file_unmap(&file);
    return status;
}

static plm_status read_file(const char *path, plm_tokenizer *tokenizer)
{
    plm_file file = {0};
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm__tokenizer_read(path, file.bytes, file.byte_count, tokenizer);
    plm__file_unmap(&file);
    PLM_TRY(status);
    return read_config(path, tokenizer);
}

plm_status plm_tokenizer_create(const char *path, plm_tokenizer **tokenizer)
{
    char joined[PATH_TEXT];
    plm_tokenizer *made = NULL;
    if (is_folder(path)) {
        PLM_TRY(join(path, PLM_TOKENIZER_FILE, joined));
        struct stat found;
        PLM_FAIL_IF(stat(joined, &found) != 0, PLM_ERROR_IO,
                    "wanted " PLM_TOKENIZER_FILE " in '%s', found none; transformers writes one "
                    "with save_pretrained of a fast tokenizer",
                    path);
        path = joined;
    }
    PLM_TRY(begin(&made));
    plm_status status = read_file(path, made);
    return PLM_HAND_OVER(status, made, plm_tokenizer_destroy, tokenizer);
}

void plm_tokenizer_destroy(plm_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (plm_encoder *encoder = tokenizer->idle, *next; encoder; encoder = next) {
        next = encoder->next;
        plm__encoder_destroy(encoder);
    }
    plm__tokenizer_fini(tokenizer);
    pthread_mutex_destroy(&tokenizer->lock);
    plm__host_free(tokenizer);
}

int64_t plm_tokenizer_count(const plm_tokenizer *tokenizer)
{
    const plm_vocabulary *model = &tokenizer->model.vocabulary, *added = &tokenizer->added.texts;
    int64_t count = plm__vocabulary_count(model);
    for (int64_t i = 0; i < added->entries.count; i++) {
        const plm_token_entry *entry = &added->entries.items[i];
        count += plm__vocabulary_find(model, added->bytes.items + entry->start, entry->count) ==
                 PLM_TOKEN_NONE;
    }
    return count;
}

int32_t plm_tokenizer_id_limit(const plm_tokenizer *tokenizer)
{
    int32_t model = plm__vocabulary_limit(&tokenizer->model.vocabulary);
    int32_t added = plm__vocabulary_limit(&tokenizer->added.texts);
    return model > added ? model : added;
}

const char *plm_tokenizer_token(const plm_tokenizer *tokenizer, int32_t id, size_t *byte_count)
{
    int64_t count = 0;
    const char *text = plm__vocabulary_text(&tokenizer->added.texts, id, &count);
    if (!text)
        text = plm__vocabulary_text(&tokenizer->model.vocabulary, id, &count);
    if (text)
        *byte_count = (size_t)count;
    return text;
}

int32_t plm_tokenizer_find(const plm_tokenizer *tokenizer, const char *piece, size_t byte_count)
{
    if (byte_count > PLM_TOKEN_BYTES_MAX)
        return PLM_TOKEN_NONE;
    int32_t id = plm__vocabulary_find(&tokenizer->added.texts, piece, (int64_t)byte_count);
    return id != PLM_TOKEN_NONE
               ? id
               : plm__vocabulary_find(&tokenizer->model.vocabulary, piece, (int64_t)byte_count);
}

bool plm_tokenizer_is_special(const plm_tokenizer *tokenizer, int32_t id)
{
    const plm_added_token *token = plm__added_tokens_by_id(&tokenizer->added, id);
    return token && token->is_special;
}

int32_t plm_tokenizer_special(const plm_tokenizer *tokenizer, plm_special special)
{
    return special >= 0 && special < PLM_SPECIAL_COUNT ? tokenizer->special[special]
                                                       : PLM_TOKEN_NONE;
}

plm_status plm_tokenizer_decode(const plm_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                bool skip_special, char **text, size_t *byte_count)
{
    plm_texts texts = {0};
    plm_text decoded = {0};
    plm_status status = PLM_OK;
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *piece = plm_tokenizer_token(tokenizer, ids[i], &length);
        if (!piece || (skip_special && plm_tokenizer_is_special(tokenizer, ids[i])))
            continue;
        plm__text_add_bytes(&texts.bytes, piece, (int64_t)length);
        PLM_TRY_DONE(plm__texts_end(&texts));
    }
    plm__text_add_bytes(&decoded, "", 0); /* so that there is a text */
    PLM_TRY_DONE(plm__decoder_apply(&tokenizer->decoder, &texts, &decoded));
    *text = decoded.items;
    *byte_count = (size_t)decoded.count;
    decoded.items = NULL;
done:
    plm__texts_fini(&texts);
    plm__text_fini(&decoded);
    return status;
}

plm_status plm_tokenizer_encode_file(const plm_tokenizer *tokenizer, const char *path,
                                     unsigned wanted, plm_encoding *encoding, size_t *byte_count)
{
    plm_file file = {0};
    PLM_TRY(plm__file_map(path, &file));
    plm_status status = plm_tokenizer_encode(tokenizer, file.bytes ? (const char *)file.bytes : "",
                                             file.byte_count, wanted, encoding);
    if (status == PLM_OK && byte_count)
        *byte_count = file.byte_count;
    plm__file_unmap(&file);
    return status;
}

/* The number at *at, behind commas and blanks; -1: there is none, and *at is where it should be. */
static int64_t next_id(const char **at)
{
    *at += strspn(*at, ", \t\n");
    int64_t id = **at >= '0' && **at <= '9' ? 0 : -1;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        id = id > PLM_TOKEN_ID_MAX ? id : 10 * id + (**at - '0');
    return id;
}

plm_status plm_tokenizer_read_ids(const plm_tokenizer *tokenizer, const char *text,
                                  plm_id_list *list)
{
    PLM_ARRAY(int32_t) ids = {0};
    plm_status status = PLM_OK;
    size_t length;
    for (const char *at = text;;) {
        int64_t id = next_id(&at);
        if (id < 0 && *at == '\0')
            break;
        if (id < 0 || (*at && !strchr(", \t\n", *at)))
            status = plm_fail(PLM_ERROR_ARGUMENT, "wanted ids as 1,2,3, found '%.40s'", at);
        else if (id >= PLM_TOKEN_ID_MAX || !plm_tokenizer_token(tokenizer, (int32_t)id, &length))
            status = plm_fail(PLM_ERROR_ARGUMENT,
                              "wanted ids of this tokenizer, which are below %d, found %lld",
                              plm_tokenizer_id_limit(tokenizer), (long long)id);
        else
            status = PLM_ARRAY_PUSH(&ids, (int32_t)id);
        if (status != PLM_OK)
            break;
    }
    if (status == PLM_OK)
        *list = (plm_id_list){.ids = ids.items, .count = ids.count};
    else
        PLM_ARRAY_FREE(&ids);
    return status;
}
