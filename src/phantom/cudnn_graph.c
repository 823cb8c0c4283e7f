/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's graph interface, which convolutions and cuDNN's attention come through: answered by the
 * real library, which is told of a device that is not here.
 *
 *  - Handles are dropped: there is none. Instead the device's description is set on heuristics and
 *    engines just before these are finalized.
 *  - A plan is not finalized and runs nothing; its workspace is worked out when it is given its
 *    engine's configuration, which may be destroyed before the plan is asked.
 *  - Graphs, heuristics, engines, configurations and plans are followed (cudnn_book.h), so that a
 *    configuration knows its convolution. Only a graph of one operation counts: what fused graphs
 *    take is as the library says.
 */
#include "phantom/cudnn_absent.h"
#include "phantom/cudnn_book.h"
#include "phantom/cudnn_choice.h"
#include "phantom/cudnn_gemm.h"
#include "phantom/cudnn_plan.h"
#include "phantom/cudnn_real.h"
#include "phantom/cudnn_rejected.h"
#include "phantom/phantom.h"

#include <stdio.h>

enum { FALLBACK_POSITION = 1024 }; /* fallbacks come after all of a first list */

/* cuDNN 9.0 and 9.1, which PyTorch 2.4 to 2.6 brought, take no description. */
static int refuse_without_device(const struct plm_cudnn_real *real)
{
    static bool asked;
    char what[160];
    snprintf(what, sizeof what,
             "a convolution or attention of cuDNN %zu.%zu (which cannot be told of a device; "
             "cuDNN 9.10 or newer, first on LD_LIBRARY_PATH, can)",
             real->version / 10000, real->version / 100 % 100);
    plm__phantom_size_unknown(what, &asked);
    return CUDNN_STATUS_NOT_SUPPORTED;
}

PLM_STANDIN(int, cudnnBackendCreateDescriptor, (int type, plm_cudnn_descriptor *descriptor))
{
    int status = plm__cudnn_real()->create(type, descriptor);
    if (!status && plm__cudnn_book_keeps(type))
        plm__cudnn_book_enter(*descriptor, type);
    return status;
}

/* The real library may hand the address out again at once, to another thread, which must not lose
 * its entry: so the book forgets first. */
PLM_STANDIN(int, cudnnBackendDestroyDescriptor, (plm_cudnn_descriptor descriptor))
{
    plm__cudnn_book_forget(descriptor);
    return plm__cudnn_real()->destroy(descriptor);
}

/* Where a descriptor's convolution comes from: the attribute that names the one before it. */
static bool names_its_origin(int type, int name)
{
    switch (type) {
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return name == CUDNN_ATTR_OPERATIONGRAPH_OPS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return name == CUDNN_ATTR_ENGINE_OPERATION_GRAPH;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return name == CUDNN_ATTR_ENGINECFG_ENGINE;
    default:
        return false;
    }
}

static void follow(struct plm_cudnn_entry *entry, int name, int64_t count, const void *value)
{
    plm_cudnn_descriptor first = *(const plm_cudnn_descriptor *)value;
    struct plm_cudnn_entry origin;
    if (name >= CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA &&
        name <= CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_YDESC)
        plm__cudnn_note_operand(entry, name, first);
    else if (names_its_origin(entry->type, name) && count == 1 &&
             plm__cudnn_book_find(first, &origin))
        entry->convolution = origin.convolution;
    plm__cudnn_book_change(entry);
}

/* The plan's workspace is known as soon as its configuration is. */
static int configure_plan(struct plm_cudnn_entry *plan, plm_cudnn_descriptor configuration)
{
    static bool asked;
    struct plm_cudnn_entry entry;
    if (!plm__cudnn_book_find(configuration, &entry))
        entry.descriptor = configuration;
    int status = plm__cudnn_configure(plan, &entry);
    if (status)
        plm__phantom_size_unknown("an execution plan of cuDNN", &asked);
    else
        plm__cudnn_book_change(plan);
    return status;
}

PLM_STANDIN(int, cudnnBackendSetAttribute,
            (plm_cudnn_descriptor descriptor, int name, int type, int64_t count, const void *value))
{
    struct plm_cudnn_entry entry;
    if (type == CUDNN_TYPE_HANDLE)
        return CUDNN_STATUS_SUCCESS;
    if (value && count > 0 && plm__cudnn_book_find(descriptor, &entry)) {
        if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
            return configure_plan(&entry, *(const plm_cudnn_descriptor *)value);
        if (name == CUDNN_ATTR_ENGINEHEUR_MODE) {
            entry.mode = *(const int *)value;
            plm__cudnn_book_change(&entry);
        } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
            follow(&entry, name, count, value);
        }
    }
    return plm__cudnn_real()->set(descriptor, name, type, count, value);
}

/* The engine that a card would list before all that are listed here, where its workspace is known;
 * 0: none. */
static int absent_engine(const struct plm_cudnn_entry *heuristic)
{
    const struct plm_cudnn_convolution *convolution = &heuristic->convolution;
    if (!plm__cudnn_may_be_absent(convolution))
        return 0;
    int engine =
        plm__cudnn_rejected_first(heuristic->descriptor, plm__cudnn_gemm_engine(convolution));
    return plm__cudnn_absent_bytes(convolution, engine, 1) < 0 ? 0 : engine;
}

/* A heuristic's results are configurations of its graph. PyTorch's cudnn.benchmark asks for the
 * first list and then for the fallbacks, takes one block of the largest workspace of all, and keeps
 * the quickest (cudnn_choice.h). The last fallback stands for the engines of Fourier transforms:
 * its size counts and it is never the choice. The first of the first list stands for an
 * engine that a card would list before it. */
static void note_results(const struct plm_cudnn_entry *heuristic, plm_cudnn_descriptor *results,
                         int64_t count)
{
    bool fallback = heuristic->mode == CUDNN_HEUR_MODE_FALLBACK;
    int absent = !fallback && count > 0 ? absent_engine(heuristic) : 0;
    for (int64_t i = 0; i < count; i++) {
        struct plm_cudnn_entry entry;
        if (!plm__cudnn_book_find(results[i], &entry))
            continue;
        entry.convolution = heuristic->convolution;
        entry.position = (int)i + (fallback ? FALLBACK_POSITION : 0);
        entry.workspace_bytes =
            fallback && i == count - 1 ? plm__cudnn_fft_bytes(&entry.convolution) : 0;
        entry.absent_engine = i == 0 ? absent : 0;
        plm__cudnn_book_change(&entry);
    }
}

static int plan_attribute(const struct plm_cudnn_entry *plan, int name, int64_t *count, void *value)
{
    bool is_workspace = name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
    if (is_workspace && value)
        *(int64_t *)value = plan->workspace_bytes;
    if (count)
        *count = is_workspace;
    return CUDNN_STATUS_SUCCESS;
}

PLM_STANDIN(int, cudnnBackendGetAttribute,
            (plm_cudnn_descriptor descriptor, int name, int type, int64_t room, int64_t *count,
             void *value))
{
    struct plm_cudnn_entry entry;
    bool found = plm__cudnn_book_find(descriptor, &entry);
    if (found && entry.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return plan_attribute(&entry, name, count, value);
    int status = plm__cudnn_real()->get(descriptor, name, type, room, count, value);
    if (!status && found && name == CUDNN_ATTR_ENGINEHEUR_RESULTS && count && value)
        note_results(&entry, value, *count < room ? *count : room);
    return status;
}

PLM_STANDIN(int, cudnnBackendFinalize, (plm_cudnn_descriptor descriptor))
{
    const struct plm_cudnn_real *real = plm__cudnn_real();
    struct plm_cudnn_entry entry;
    plm__cudnn_book_find(descriptor, &entry);
    if (entry.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return CUDNN_STATUS_SUCCESS;
    int name = entry.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR ? CUDNN_ATTR_ENGINEHEUR_DEVICEPROP
               : entry.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR   ? CUDNN_ATTR_ENGINE_DEVICEPROP
                                                                 : 0;
    if (name && !real->device)
        return refuse_without_device(real);
    if (name)
        real->set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &real->device);
    return real->finalize(descriptor);
}

PLM_STANDIN(int, cudnnBackendExecute, (void *handle, plm_cudnn_descriptor plan, void *pack))
{
    struct plm_cudnn_entry entry;
    plm__cudnn_book_find(plan, &entry);
    plm__cudnn_ran(entry.rank);
    return CUDNN_STATUS_SUCCESS;
}
