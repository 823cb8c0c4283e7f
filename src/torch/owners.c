/* SPDX-License-Identifier: MIT */
/*
 * An owner of a recording is a call stack. People look for the line of their own program in it, so
 * that line becomes the owner's operation: "forward model.py:41".
 */
#include "torch/owners.h"

#include <string.h>

#include "base/utf8.h"
#include "trace/trace.h"

plm_status plm__owner_map_init(plm_owner_map *map, const plm_fold_store *store, plm_trace *trace)
{
    *map = (plm_owner_map){.store = store, .trace = trace};
    return plm__host_alloc((size_t)store->owners.entries.count * sizeof *map->places, &map->places);
}

void plm__owner_map_fini(plm_owner_map *map)
{
    plm__host_free(map->places);
    PLM_ARRAY_FREE(&map->frames);
    plm__text_fini(&map->text);
}

plm_status plm__owner_map_carry_text(plm_owner_map *map, uint32_t *text)
{
    if (*text == PLM_WORD_EMPTY)
        return PLM_OK;
    const plm_intern_entry *entry = &map->store->document->texts.entries.items[*text];
    map->text.count = 0;
    plm__utf8_add_clean(&map->text, entry->bytes, entry->count);
    PLM_TRY(plm__text_status(&map->text));
    return plm__trace_intern_bytes(map->trace, map->text.items, (size_t)map->text.count, text);
}

static plm_status carry_stack(plm_owner_map *map, uint32_t stack, int32_t *index)
{
    int64_t count;
    const char *numbers = plm__fold_get_stack(map->store, stack, &count);
    map->frames.count = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t number;
        memcpy(&number, numbers + (size_t)i * sizeof number, sizeof number);
        plm_fold_frame found = plm__fold_get_frame(map->store, number);
        plm_frame frame = {found.name, found.file, found.line};
        PLM_TRY(plm__owner_map_carry_text(map, &frame.function));
        PLM_TRY(plm__owner_map_carry_text(map, &frame.file));
        PLM_TRY(PLM_ARRAY_PUSH(&map->frames, frame));
    }
    return plm__trace_add_stack(map->trace, map->frames.items, count, index);
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/*
 * How well a frame tells people where they are: 4 a line of the user's program; 3 Python, but
 * PyTorch's own, or of the files that watch a script for a forecast; 2 a backward function; 1 an
 * operation that was called; 0 anything else.
 */
static int nearness(const char *function, const char *file)
{
    size_t length = strlen(file);
    bool python = (length > 3 && strcmp(file + length - 3, ".py") == 0) || file[0] == '<';
    bool internal = begins(file, "torch/") || begins(file, "<frozen ") ||
                    strstr(file, "-packages/torch/") || strstr(file, "/plimsoll_forecast/");
    if (python)
        return internal ? 3 : 4;
    if (begins(function, "torch::autograd::generated::"))
        return 2;
    return begins(function, "at::_ops::") && strstr(function, "::call(") ? 1 : 0;
}

/* The length of a C++ function's name without its parameters. */
static int64_t plain_name_bytes(const char *function)
{
    const char *end = function;
    while ((end = strchr(end, '(')) && begins(end, "(anonymous namespace)"))
        end++;
    return end && end > function ? end - function : (int64_t)strlen(function);
}

/* The innermost of the frames that tell most; map->frames is the stack. */
static plm_status carry_site(plm_owner_map *map, uint32_t *op)
{
    if (map->frames.count == 0)
        return PLM_OK;
    const plm_frame *site = NULL;
    int best = -1;
    for (int64_t i = 0; i < map->frames.count && best < 4; i++) {
        const plm_frame *frame = &map->frames.items[i];
        int near = nearness(plm_trace_text(map->trace, frame->function),
                            plm_trace_text(map->trace, frame->file));
        if (near > best) {
            best = near;
            site = frame;
        }
    }
    map->text.count = 0;
    const char *function = plm_trace_text(map->trace, site->function);
    plm__text_add_bytes(&map->text, function,
                        best < 3 ? plain_name_bytes(function) : (int64_t)strlen(function));
    if (site->line > 0)
        plm__text_add(&map->text, " %s:%d", plm_trace_text(map->trace, site->file), site->line);
    PLM_TRY(plm__text_status(&map->text));
    return plm__trace_intern_bytes(map->trace, map->text.items, (size_t)map->text.count, op);
}

plm_status plm__owner_map_carry(plm_owner_map *map, int32_t *owner)
{
    if (*owner == PLM_TRACE_NO_OWNER)
        return PLM_OK;
    int32_t *place = &map->places[*owner];
    if (*place == 0) {
        plm_fold_owner found = plm__fold_get_owner(map->store, (uint32_t)*owner);
        plm_owner made = {.role = -1, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
        made.name = found.metadata;
        PLM_TRY(plm__owner_map_carry_text(map, &made.name));
        if (found.stack != 0) {
            PLM_TRY(carry_stack(map, found.stack, &made.frames));
            PLM_TRY(carry_site(map, &made.op));
        }
        int32_t index;
        PLM_TRY(plm__trace_add_owner(map->trace, &made, &index));
        *place = index + 1;
    }
    *owner = *place - 1;
    return PLM_OK;
}
