/* SPDX-License-Identifier: MIT */
/*
 * Roles of blocks. A recording does not name tensors, so a role is what stacks, sizes and instants
 * agree on: parameters are made when modules are made or moved, or, without stacks, before an
 * optimizer is first called; its state is made in its own frames, or in its first step; a gradient
 * is made outside of Python, has a parameter's size, and lives when a step ends; a copy has half of
 * a parameter's size and is made by the program, at most as many as there are parameters.
 */
#include "base/host.h"
#include "diagnose/checklist_internal.h"

static bool is_parameter(const plm_facts *facts, int64_t birth, bool by_stack)
{
    if (by_stack)
        return plm__origin_of(facts, birth).part == PLM_PART_PARAMETERS;
    /* Of what was made before the first call, that which outlives the last one. */
    int64_t until = facts->last_end >= 0 ? facts->last_end : facts->findings->peak_event;
    return !facts->is_late && plm__is_recorded(facts, birth) && birth <= facts->first_work &&
           plm__lives_at(facts, facts->events[birth].block, until);
}

static bool is_state(const plm_facts *facts, int64_t birth)
{
    if (facts->findings->has_stacks)
        return plm__origin_of(facts, birth).part == PLM_PART_OPTIMIZER_STATE;
    return !facts->is_late && facts->first_end >= 0 && birth > facts->first_begin &&
           birth <= facts->first_end &&
           facts->deaths[facts->events[birth].block] > facts->first_end;
}

/* The first of `count` rising events that is not before `event`; `none` when there is none. */
static int64_t first_from(const int64_t *list, int64_t count, int64_t event, int64_t none)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (list[middle] < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count ? list[low] : none;
}

int64_t plm__end_behind(const plm_facts *facts, int64_t birth)
{
    return first_from(facts->ends.items, facts->ends.count, birth, facts->event_count);
}

int64_t plm__backward_behind(const plm_facts *facts, int64_t birth)
{
    return first_from(facts->backwards.items, facts->backwards.count, birth, facts->event_count);
}

static plm_status find_gradient(const plm_facts *facts, plm_sizes *parameters, int64_t birth,
                                bool *found)
{
    const plm_event *event = &facts->events[birth];
    plm_part part = plm__origin_of(facts, birth).part;
    int64_t end = plm__end_behind(facts, birth), *count;
    *found = false;
    if (birth <= facts->first_work || facts->deaths[event->block] <= end)
        return PLM_OK;
    *found = part == PLM_PART_GRADIENTS;
    if (part != PLM_PART_NO_STACK && part != PLM_PART_BACKWARD)
        return PLM_OK;
    PLM_TRY(plm__sizes_find(parameters, event->bytes_asked, &count));
    *found = *count > 0;
    return PLM_OK;
}

/* Within the step that holds the peak. */
static bool is_in_step(const plm_facts *facts, int64_t birth)
{
    int64_t begin = facts->cycle >= 0 ? facts->cycle : facts->first_work;
    return birth > begin && birth <= plm__end_behind(facts, begin + 1);
}

static plm_status find_copy(plm_facts *facts, plm_sizes *parameters, plm_sizes *seen, int64_t birth,
                            bool *found)
{
    const plm_event *event = &facts->events[birth];
    plm_part part = plm__origin_of(facts, birth).part;
    int64_t *count, *copies;
    *found = false;
    if (part != (facts->findings->has_stacks ? PLM_PART_PROGRAM : PLM_PART_NO_STACK) ||
        !is_in_step(facts, birth))
        return PLM_OK;
    PLM_TRY(plm__sizes_find(parameters, event->bytes_asked * 2, &count));
    PLM_TRY(plm__sizes_find(seen, event->bytes_asked, &copies));
    *found = *copies < *count;
    if (!*found)
        return PLM_OK;
    facts->copied_sizes += *copies == 0;
    facts->copied_bytes += event->bytes_asked * 2;
    (*copies)++;
    return PLM_OK;
}

static plm_status count_parameters(plm_facts *facts, bool by_stack, plm_sizes *parameters)
{
    for (int64_t i = 0; i < facts->event_count; i++) {
        int64_t *count;
        if (facts->events[i].kind != PLM_EVENT_BLOCK_ALLOC || !is_parameter(facts, i, by_stack))
            continue;
        facts->roles[facts->events[i].block] = PLM_BLOCK_PARAMETER;
        facts->whole_bytes += facts->events[i].bytes_asked;
        PLM_TRY(plm__sizes_find(parameters, facts->events[i].bytes_asked, &count));
        facts->parameter_sizes += *count == 0;
        (*count)++;
    }
    return PLM_OK;
}

static plm_status give_roles(plm_facts *facts, plm_sizes *parameters, plm_sizes *seen)
{
    PLM_TRY(count_parameters(facts, facts->findings->has_stacks, parameters));
    if (facts->findings->has_stacks && facts->parameter_sizes == 0)
        PLM_TRY(count_parameters(facts, false, parameters));
    for (int64_t i = 0; i < facts->event_count; i++) {
        if (facts->events[i].kind != PLM_EVENT_BLOCK_ALLOC)
            continue;
        uint8_t *role = &facts->roles[facts->events[i].block];
        bool found = false;
        if (*role == PLM_BLOCK_OTHER && is_state(facts, i))
            *role = PLM_BLOCK_STATE;
        if (*role == PLM_BLOCK_OTHER && plm__is_recorded(facts, i)) {
            PLM_TRY(find_gradient(facts, parameters, i, &found));
            *role = found ? PLM_BLOCK_GRADIENT : PLM_BLOCK_OTHER;
        }
        if (*role == PLM_BLOCK_OTHER && plm__is_recorded(facts, i)) {
            PLM_TRY(find_copy(facts, parameters, seen, i, &found));
            *role = found ? PLM_BLOCK_COPY : PLM_BLOCK_OTHER;
        }
    }
    return PLM_OK;
}

plm_status plm__find_roles(plm_facts *facts)
{
    plm_sizes parameters, seen;
    PLM_TRY(plm__host_alloc((size_t)facts->findings->block_count + 1, &facts->roles));
    PLM_TRY(plm__sizes_init(&parameters));
    plm_status status = plm__sizes_init(&seen);
    if (status == PLM_OK) {
        status = give_roles(facts, &parameters, &seen);
        plm__sizes_fini(&seen);
    }
    plm__sizes_fini(&parameters);
    return status;
}
