/* SPDX-License-Identifier: MIT */
/* The machine under the pickle and JSON readers: stack, marks, memo, containers. */
#include "torch/document.h"

#include <string.h>

plm_status plm__document_init(plm_document *document, const char *const *words, int64_t word_count,
                              plm_fold fold)
{
    memset(document, 0, sizeof *document);
    document->fold = fold;
    PLM_TRY(plm__intern_init(&document->texts));
    for (int64_t i = 0; i < word_count; i++) {
        uint32_t number;
        plm_status status = plm__intern_add(&document->texts, words[i], strlen(words[i]), &number);
        if (status != PLM_OK) {
            plm__document_fini(document);
            return status;
        }
        PLM_BUG_IF(number != i + 1, "the word '%s' is listed twice", words[i]);
    }
    return PLM_OK;
}

void plm__document_end_reading(plm_document *document)
{
    PLM_ARRAY_FREE(&document->stack);
    PLM_ARRAY_FREE(&document->memo);
    PLM_ARRAY_FREE(&document->spilled);
}

void plm__document_fini(plm_document *document)
{
    plm__document_end_reading(document);
    for (int64_t i = 0; i < document->lists.count; i++)
        PLM_ARRAY_FREE(&document->lists.items[i].more);
    for (int64_t i = 0; i < document->dicts.count; i++)
        PLM_ARRAY_FREE(&document->dicts.items[i].pairs);
    PLM_ARRAY_FREE(&document->lists);
    PLM_ARRAY_FREE(&document->dicts);
    plm__intern_fini(&document->texts);
    memset(document, 0, sizeof *document);
}

/* Stack and marks. */

plm_status plm__document_grow_stack(plm_document *document)
{
    PLM_FAIL_IF(document->stack.count >= PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                "more than %d values are open at once", PLM_DOCUMENT_COUNT_MAX);
    return PLM_ARRAY_RESERVE(&document->stack, document->stack.count + 1);
}

static int64_t floor_of(const plm_document *document)
{
    return document->mark_count > 0 ? document->marks[document->mark_count - 1] : 0;
}

plm_status plm__document_need(const plm_document *document, int64_t count)
{
    PLM_FAIL_IF(document->stack.count - floor_of(document) < count, PLM_ERROR_FORMAT,
                "wanted %lld values on the stack, found %lld", (long long)count,
                (long long)(document->stack.count - floor_of(document)));
    return PLM_OK;
}

plm_status plm__document_push_text(plm_document *document, const uint8_t *bytes, size_t count)
{
    uint32_t number;
    PLM_TRY(plm__intern_add(&document->texts, (const char *)bytes, count, &number));
    PLM_FAIL_IF(number > PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                "more than %d different texts", PLM_DOCUMENT_COUNT_MAX);
    return plm__document_push(document, (plm_value){.kind = PLM_VALUE_TEXT, .index = number});
}

plm_status plm__document_mark(plm_document *document)
{
    PLM_FAIL_IF(document->mark_count >= PLM_DOCUMENT_DEPTH_MAX, PLM_ERROR_FORMAT,
                "nested deeper than %d", PLM_DOCUMENT_DEPTH_MAX);
    document->marks[document->mark_count++] = document->stack.count;
    return PLM_OK;
}

plm_status plm__document_unmark(plm_document *document, int64_t *first)
{
    PLM_FAIL_IF(document->mark_count == 0, PLM_ERROR_FORMAT, "no mark is open");
    *first = document->marks[--document->mark_count];
    return PLM_OK;
}

/* Memo. */

plm_status plm__document_put(plm_document *document, uint64_t slot)
{
    PLM_TRY(plm__document_need(document, 1));
    PLM_FAIL_IF(slot >= PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                "more than %d values in the memo", PLM_DOCUMENT_COUNT_MAX);
    if ((int64_t)slot >= document->memo.capacity)
        PLM_TRY(PLM_ARRAY_RESERVE(&document->memo, (int64_t)slot + 1));
    plm_value *top = &document->stack.items[document->stack.count - 1];
    uint32_t packed;
    if (plm__document_packs(top)) {
        packed = plm__document_pack(top->kind, top->index);
    } else {
        PLM_FAIL_IF(document->spilled.count >= PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                    "more than %d plain values in the memo", PLM_DOCUMENT_COUNT_MAX);
        PLM_TRY(PLM_ARRAY_PUSH(&document->spilled, *top));
        packed = plm__document_pack(PLM_VALUE_SPILLED, (uint64_t)document->spilled.count - 1);
    }
    top->memo = (uint32_t)slot + 1;
    document->memo.items[slot] = packed;
    if ((int64_t)slot >= document->memo.count)
        document->memo.count = (int64_t)slot + 1;
    return PLM_OK;
}

plm_status plm__document_get(plm_document *document, uint64_t slot)
{
    PLM_FAIL_IF(slot >= (uint64_t)document->memo.count || document->memo.items[slot] == 0,
                PLM_ERROR_FORMAT, "memo slot %llu was never set", (unsigned long long)slot);
    uint32_t packed = document->memo.items[slot];
    plm_value value = {.kind = packed & 31, .index = packed >> 5};
    if (value.kind == PLM_VALUE_SPILLED)
        value = document->spilled.items[value.index];
    else if (value.kind == PLM_VALUE_EMPTY_LIST || value.kind == PLM_VALUE_EMPTY_DICT)
        document->memo.items[slot] =
            plm__document_pack(value.kind == PLM_VALUE_EMPTY_LIST ? PLM_VALUE_SHARED_EMPTY_LIST
                                                                  : PLM_VALUE_SHARED_EMPTY_DICT,
                               0);
    else if (value.kind == PLM_VALUE_SHARED_EMPTY_LIST)
        value.kind = PLM_VALUE_EMPTY_LIST;
    else if (value.kind == PLM_VALUE_SHARED_EMPTY_DICT)
        value.kind = PLM_VALUE_EMPTY_DICT;
    value.memo = 0;
    return plm__document_push(document, value);
}

/*
 * An empty container that is about to be filled: whoever fetched it from the memo holds it as
 * empty, which is only wrong when it contains itself.
 */
static plm_status check_not_shared(const plm_document *document, const plm_value *container)
{
    if (container->memo == 0)
        return PLM_OK;
    uint32_t kind = document->memo.items[container->memo - 1] & 31;
    PLM_FAIL_IF(kind == PLM_VALUE_SHARED_EMPTY_LIST || kind == PLM_VALUE_SHARED_EMPTY_DICT,
                PLM_ERROR_FORMAT, "a container was used before it was filled: it holds itself");
    return PLM_OK;
}

/* After a container became what it is for good: the memo must say so too. */
static void settle(plm_document *document, const plm_value *container)
{
    if (container->memo != 0)
        document->memo.items[container->memo - 1] =
            plm__document_pack(container->kind, container->index);
}

/* Lists. */

/* Whether `value` is the one that follows the run. */
static bool continues(const plm_run *run, const plm_value *value)
{
    return value->kind >= PLM_VALUE_FOLDED && value->kind == run->first.kind &&
           value->index == run->first.index + (uint64_t)run->count;
}

static plm_status list_add(plm_list *list, const plm_value *items, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        plm_run *last =
            list->more.count > 0 ? &list->more.items[list->more.count - 1] : &list->head;
        if (list->count > 0 && continues(last, &items[i])) {
            last->count++;
        } else {
            plm_run run = {.first = items[i], .count = 1};
            run.first.memo = 0;
            if (list->count == 0)
                list->head = run;
            else
                PLM_TRY(PLM_ARRAY_PUSH(&list->more, run));
        }
        list->count++;
    }
    return PLM_OK;
}

plm_status plm__document_append(plm_document *document, int64_t first)
{
    PLM_FAIL_IF(first < 1 || first - 1 < floor_of(document), PLM_ERROR_FORMAT,
                "items without a list below them");
    plm_value *list = &document->stack.items[first - 1];
    const plm_value *items = &document->stack.items[first];
    int64_t count = document->stack.count - first;
    document->stack.count = first;
    if (list->kind == PLM_VALUE_EMPTY_LIST || list->kind >= PLM_VALUE_FOLDED) {
        if (count == 0)
            return PLM_OK;
        PLM_TRY(check_not_shared(document, list));
        if (document->fold.list)
            PLM_TRY(document->fold.list(document->fold.context, items, count, list));
        if (list->kind >= PLM_VALUE_FOLDED) {
            settle(document, list);
            return PLM_OK;
        }
        PLM_FAIL_IF(document->lists.count >= PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                    "more than %d lists", PLM_DOCUMENT_COUNT_MAX);
        PLM_TRY(PLM_ARRAY_PUSH(&document->lists, (plm_list){.count = 0}));
        list->kind = PLM_VALUE_LIST;
        list->index = (uint64_t)document->lists.count - 1;
        settle(document, list);
    }
    PLM_FAIL_IF(list->kind != PLM_VALUE_LIST, PLM_ERROR_FORMAT,
                "items for something that is no list");
    return list_add(&document->lists.items[list->index], items, count);
}

/* Dictionaries. */

plm_status plm__document_set(plm_document *document, int64_t first)
{
    PLM_FAIL_IF(first < 1 || first - 1 < floor_of(document), PLM_ERROR_FORMAT,
                "items without a dictionary below them");
    plm_value *dict = &document->stack.items[first - 1];
    const plm_value *pairs = &document->stack.items[first];
    int64_t count = document->stack.count - first;
    PLM_FAIL_IF(count % 2 != 0, PLM_ERROR_FORMAT, "a key without its value");
    document->stack.count = first;
    if (dict->kind == PLM_VALUE_EMPTY_DICT) {
        if (count == 0)
            return PLM_OK;
        PLM_TRY(check_not_shared(document, dict));
        if (document->fold.dict)
            PLM_TRY(document->fold.dict(document->fold.context, pairs, count / 2, dict));
        if (dict->kind >= PLM_VALUE_FOLDED) {
            settle(document, dict);
            return PLM_OK;
        }
        PLM_FAIL_IF(document->dicts.count >= PLM_DOCUMENT_COUNT_MAX, PLM_ERROR_UNSUPPORTED,
                    "more than %d dictionaries", PLM_DOCUMENT_COUNT_MAX);
        PLM_TRY(PLM_ARRAY_PUSH(&document->dicts, (plm_dict){0}));
        dict->kind = PLM_VALUE_DICT;
        dict->index = (uint64_t)document->dicts.count - 1;
        settle(document, dict);
    }
    PLM_FAIL_IF(dict->kind != PLM_VALUE_DICT, PLM_ERROR_FORMAT,
                "keys for something that is no dictionary, or is already complete");
    plm_dict *kept = &document->dicts.items[dict->index];
    for (int64_t i = 0; i < count; i++)
        PLM_TRY(PLM_ARRAY_PUSH(&kept->pairs, pairs[i]));
    return PLM_OK;
}

plm_status plm__document_make(plm_document *document, int64_t first, plm_value_kind empty_kind)
{
    int64_t count = document->stack.count - first;
    PLM_TRY(plm__document_push(document, (plm_value){.kind = PLM_VALUE_NONE}));
    plm_value *items = &document->stack.items[first];
    memmove(items + 1, items, (size_t)count * sizeof *items);
    *items = (plm_value){.kind = empty_kind};
    return empty_kind == PLM_VALUE_EMPTY_LIST ? plm__document_append(document, first + 1)
                                              : plm__document_set(document, first + 1);
}

/* Reading what was made. */

const plm_value *plm__document_member(const plm_document *document, const plm_value *value,
                                      uint32_t key)
{
    if (!value || value->kind != PLM_VALUE_DICT)
        return NULL;
    const plm_dict *dict = &document->dicts.items[value->index];
    for (int64_t i = dict->pairs.count - 2; i >= 0; i -= 2) /* of equal keys the last holds */
        if (dict->pairs.items[i].kind == PLM_VALUE_TEXT && dict->pairs.items[i].index == key)
            return &dict->pairs.items[i + 1];
    return NULL;
}

int64_t plm__document_count(const plm_document *document, const plm_value *value)
{
    return value && value->kind == PLM_VALUE_LIST ? document->lists.items[value->index].count : 0;
}

bool plm__document_run(const plm_document *document, const plm_value *value, int64_t index,
                       plm_run *run)
{
    if (!value || value->kind != PLM_VALUE_LIST)
        return false;
    const plm_list *list = &document->lists.items[value->index];
    if (list->count == 0 || index > list->more.count)
        return false;
    *run = index == 0 ? list->head : list->more.items[index - 1];
    return true;
}

plm_value plm__document_item(const plm_document *document, const plm_value *value, int64_t index)
{
    plm_run run;
    for (int64_t i = 0; plm__document_run(document, value, i, &run); i++) {
        if (index < run.count) {
            run.first.index += run.first.kind >= PLM_VALUE_FOLDED ? (uint64_t)index : 0;
            return run.first;
        }
        index -= run.count;
    }
    return (plm_value){.kind = PLM_VALUE_NOTHING};
}
