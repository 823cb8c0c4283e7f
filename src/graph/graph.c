/* SPDX-License-Identifier: MIT */
/* The graph: programs, parameters in flat storages, inputs, names, the sticky failure. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/dtype.h"

static const char *const program_texts[PLM_PROGRAM_COUNT] = {
#define PROGRAM_ROW(name, text) [PLM_PROGRAM_##name] = text,
    PLM_PROGRAM_MAP(PROGRAM_ROW)
#undef PROGRAM_ROW
};

/* What each flat storage is for, and how long it lives. */
static const struct {
    plm_role role;
    plm_scope scope;
} flats[PLM_FLAT_COUNT] = {
    [PLM_FLAT_PARAMETER] = {PLM_ROLE_PARAMETER, PLM_SCOPE_RUN},
    [PLM_FLAT_MASTER] = {PLM_ROLE_MASTER, PLM_SCOPE_RUN},
    [PLM_FLAT_GRADIENT] = {PLM_ROLE_GRADIENT, PLM_SCOPE_WINDOW},
    [PLM_FLAT_MOMENT1] = {PLM_ROLE_OPTIMIZER, PLM_SCOPE_RUN},
    [PLM_FLAT_MOMENT2] = {PLM_ROLE_OPTIMIZER, PLM_SCOPE_RUN},
};

const char *plm_program_text(plm_program program)
{
    return (unsigned)program < PLM_PROGRAM_COUNT ? program_texts[program] : "unknown";
}

void plm__graph_destroy(plm_graph *graph)
{
    if (!graph)
        return;
    PLM_ARRAY_FREE(&graph->storages);
    PLM_ARRAY_FREE(&graph->tensors);
    PLM_ARRAY_FREE(&graph->ops);
    PLM_ARRAY_FREE(&graph->parameters);
    PLM_ARRAY_FREE(&graph->parameter_of);
    PLM_ARRAY_FREE(&graph->by_name);
    plm__intern_fini(&graph->names);
    plm__host_free(graph);
}

bool plm__graph_check(plm_graph *graph, plm_status status)
{
    if (status != PLM_OK && graph->error.status == PLM_OK)
        plm_error_get(&graph->error);
    return graph->error.status == PLM_OK;
}

plm_status plm__graph_status(const plm_graph *graph)
{
    if (graph->error.status == PLM_OK)
        return PLM_OK;
    plm_status status = plm_fail(graph->error.status, "%s", graph->error.message);
    plm__fail_oom(&graph->error.oom);
    return status;
}

void plm__graph_begin(plm_graph *graph, plm_program program)
{
    PLM_ASSERT(graph->programs[program].begin == graph->programs[program].end);
    graph->program = program;
    graph->programs[program] = (plm_op_range){graph->ops.count, graph->ops.count};
    graph->layer = 0;
    graph->block = -1;
    graph->label = 0;
    graph->next_site = 1;
}

void plm_block(plm_graph *graph, int32_t index)
{
    if (index < 0 || index >= PLM_BLOCKS_MAX) {
        plm__graph_check(graph,
                         plm_fail(PLM_ERROR_ARGUMENT, "wanted a block from 0 to %d, found %d",
                                  PLM_BLOCKS_MAX - 1, index));
        return;
    }
    plm_layer(graph, "block.%d", index);
    graph->block = index;
    if (index >= graph->block_count)
        graph->block_count = index + 1;
}

int32_t plm_blocks(const plm_graph *graph, int64_t count)
{
    int64_t most = graph->blocks_most > 0 ? graph->blocks_most : PLM_BLOCKS_MAX + 1;
    return (int32_t)(count < most ? count : most); /* one too many is for plm_block to refuse */
}

PLM_PRINTF(2, 3) void plm_layer(plm_graph *graph, const char *format, ...)
{
    graph->block = -1;
    char name[128];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof name)
        plm__graph_check(graph,
                         plm_fail(PLM_ERROR_ARGUMENT, "wanted a layer name of under 128 bytes"));
    else
        plm__graph_check(graph,
                         plm__intern_add(&graph->names, name, (size_t)length, &graph->layer));
}

int64_t plm__shape_elements(const plm_shape *shape)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++)
        elements *= shape->dims[i];
    return elements;
}

const char *plm__shape_format(const plm_shape *shape, char text[PLM_SHAPE_TEXT])
{
    size_t used = 0;
    text[used++] = '[';
    for (int32_t i = 0; i < shape->rank; i++)
        used += (size_t)snprintf(text + used, PLM_SHAPE_TEXT - used, "%s%" PRId64, i ? "," : "",
                                 shape->dims[i]);
    snprintf(text + used, PLM_SHAPE_TEXT - used, "] %s", plm_dtype_text(shape->dtype));
    return text;
}

static plm_status shape_bytes(const plm_shape *shape, size_t *bytes)
{
    size_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        PLM_FAIL_IF(shape->dims[i] < 0, PLM_ERROR_ARGUMENT,
                    "wanted dimensions of 0 or more, found %" PRId64, shape->dims[i]);
        PLM_TRY(plm__mul_bytes(elements, (size_t)shape->dims[i], &elements));
    }
    PLM_FAIL_IF(elements > INT64_MAX / 16, PLM_ERROR_OVERFLOW,
                "a tensor of %zu elements is beyond what can be counted; use smaller dimensions",
                elements);
    return plm__dtype_bytes(shape->dtype, (int64_t)elements, bytes);
}

/* Appends a contiguous tensor on `storage` at `offset`; its bytes come from the shape. */
static plm_status add_tensor(plm_graph *graph, const plm_shape *shape, int32_t storage,
                             size_t offset, plm_role role, plm_tensor *tensor)
{
    plm_tensor_info info = {.shape = *shape,
                            .storage = storage,
                            .offset = offset,
                            .layer = graph->layer,
                            .view_of = PLM_TENSOR_NONE,
                            .producer = -1,
                            .role = role};
    PLM_TRY(shape_bytes(shape, &info.bytes));
    for (int32_t i = shape->rank - 1; i >= 0; i--)
        info.stride[i] = i == shape->rank - 1 ? 1 : info.stride[i + 1] * shape->dims[i + 1];
    PLM_TRY(PLM_ARRAY_RESERVE(&graph->parameter_of, graph->tensors.count + 1));
    PLM_TRY(PLM_ARRAY_PUSH(&graph->tensors, info));
    graph->parameter_of.items[graph->parameter_of.count++] = -1;
    *tensor = (plm_tensor)(graph->tensors.count - 1);
    return PLM_OK;
}

static plm_status add_storage(plm_graph *graph, size_t bytes, plm_scope scope, int32_t *storage)
{
    PLM_TRY(PLM_ARRAY_PUSH(&graph->storages, (plm_storage){bytes, scope, graph->program}));
    *storage = (int32_t)(graph->storages.count - 1);
    return PLM_OK;
}

plm_status plm__graph_run_tensor(plm_graph *graph, const char *name, const plm_shape *shape,
                                 plm_role role, plm_tensor *tensor)
{
    int32_t storage;
    PLM_TRY(add_storage(graph, 0, PLM_SCOPE_RUN, &storage));
    PLM_TRY(add_tensor(graph, shape, storage, 0, role, tensor));
    graph->storages.items[storage].bytes = plm__graph_tensor(graph, *tensor)->bytes;
    return plm__intern_add(&graph->names, name, strlen(name), &graph->tensors.items[*tensor].name);
}

/* Tensor 0 on storage 0, made with the graph. */
static plm_status add_step_record(plm_graph *graph)
{
    const plm_shape shape = {PLM_DTYPE_U8, 1, {sizeof(plm_step_record)}};
    plm_tensor tensor;
    PLM_TRY(plm__graph_run_tensor(graph, "step record", &shape, PLM_ROLE_STATE, &tensor));
    PLM_BUG_IF(tensor != PLM_TENSOR_STEP, "the step record is not the first tensor");
    return PLM_OK;
}

plm_status plm__graph_create(const plm_strategy *strategy, plm_graph **graph)
{
    plm_graph *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    plm_status status = plm__intern_init(&made->names);
    if (status != PLM_OK) {
        plm__host_free(made);
        return status;
    }
    made->strategy = *strategy;
    made->row_multiple = 1;
    memset(made->flat_storage, -1, sizeof made->flat_storage);
    memset(made->loss, -1, sizeof made->loss);
    status = add_step_record(made);
    return PLM_HAND_OVER(status, made, plm__graph_destroy, graph);
}

plm_status plm__graph_call_tensor(plm_graph *graph, const plm_shape *shape, plm_role role,
                                  plm_tensor *tensor)
{
    int32_t storage;
    PLM_TRY(add_storage(graph, 0, PLM_SCOPE_CALL, &storage));
    PLM_TRY(add_tensor(graph, shape, storage, 0, role, tensor));
    graph->storages.items[storage].bytes = plm__graph_tensor(graph, *tensor)->bytes;
    return PLM_OK;
}

plm_status plm__graph_view(plm_graph *graph, plm_tensor of, const plm_shape *shape, size_t offset,
                           plm_tensor *view)
{
    const plm_tensor_info whole = *plm__graph_tensor(graph, of);
    graph->layer = whole.layer;
    PLM_TRY(add_tensor(graph, shape, whole.storage, whole.offset + offset, whole.role, view));
    plm_tensor_info *info = &graph->tensors.items[*view];
    PLM_BUG_IF(offset + info->bytes > whole.bytes,
               "a view of %zu bytes at %zu leaves its tensor of %zu", info->bytes, offset,
               whole.bytes);
    info->name = whole.name;
    info->view_of = of;
    info->producer = whole.producer;
    return PLM_OK;
}

/* The element type of a kind of flat storage. */
static plm_dtype flat_dtype(const plm_graph *graph, plm_flat flat)
{
    switch (flat) {
    case PLM_FLAT_PARAMETER:
        return graph->strategy.precision;
    case PLM_FLAT_GRADIENT:
        return graph->strategy.gradient;
    default:
        return PLM_DTYPE_F32;
    }
}

plm_flat plm__graph_updated_flat(const plm_graph *graph)
{
    return graph->strategy.precision == PLM_DTYPE_F32 ? PLM_FLAT_PARAMETER : PLM_FLAT_MASTER;
}

/* Where element `element` of a flat storage lies; plain numbers, so whole bytes. */
static size_t flat_offset(const plm_graph *graph, plm_flat flat, size_t element)
{
    return element * plm__dtype_size(flat_dtype(graph, flat));
}

/* Makes the group's flat storage of this kind when it is missing, as long as the group is now. */
static plm_status need_flat_storage(plm_graph *graph, plm_flat flat, plm_group group)
{
    int32_t *storage = &graph->flat_storage[flat][group];
    if (*storage >= 0)
        return PLM_OK;
    size_t bytes = flat_offset(graph, flat, graph->group_elements[group]);
    return add_storage(graph, bytes, flats[flat].scope, storage);
}

/* The elements to which a parameter is rounded up, so that each begins at a granule in every flat
 * storage, the narrowest too. */
static size_t granule_elements(const plm_graph *graph)
{
    return PLM_GRANULE_BYTES / plm__dtype_size(graph->strategy.precision);
}

size_t plm__graph_flat_room(const plm_graph *graph, const plm_tensor_info *tensor)
{
    size_t element = plm__dtype_size(tensor->shape.dtype), granule = granule_elements(graph);
    return (tensor->bytes / element + granule - 1) / granule * granule * element;
}

/* *end = the elements of a group that grows by `elements`, if the widest can be counted. */
static plm_status grow_group(const plm_graph *graph, plm_group group, int64_t elements, size_t *end)
{
    size_t widest;
    PLM_TRY(plm__round_up_bytes((size_t)elements, granule_elements(graph), end));
    PLM_TRY(plm__add_bytes(graph->group_elements[group], *end, end));
    return plm__mul_bytes(*end, sizeof(float), &widest);
}

/* Appends the parameter's tensor at the end of its group, whose flat storages all grow by it; of
 * `shape`, the first rows of which are `real`. */
static plm_status add_parameter(plm_graph *graph, uint32_t name, const plm_shape *real,
                                const plm_shape *shape, plm_init init, plm_group group,
                                plm_tensor *tensor)
{
    PLM_TRY(need_flat_storage(graph, PLM_FLAT_PARAMETER, group));
    size_t bytes, end;
    size_t offset = flat_offset(graph, PLM_FLAT_PARAMETER, graph->group_elements[group]);
    PLM_TRY(shape_bytes(shape, &bytes)); /* fails for what cannot be counted */
    PLM_TRY(grow_group(graph, group, plm__shape_elements(shape), &end));
    PLM_TRY(PLM_ARRAY_RESERVE(&graph->parameters, graph->parameters.count + 1));
    PLM_TRY(PLM_ARRAY_RESERVE(&graph->by_name, (int64_t)name + 1));
    PLM_TRY(add_tensor(graph, shape, graph->flat_storage[PLM_FLAT_PARAMETER][group], offset,
                       PLM_ROLE_PARAMETER, tensor));
    plm_tensor_info *info = &graph->tensors.items[*tensor];
    info->name = name;
    info->trainable = info->needs_gradient = true;
    graph->parameter_of.items[*tensor] = (int32_t)graph->parameters.count;
    while (graph->by_name.count <= name)
        graph->by_name.items[graph->by_name.count++] = 0;
    graph->by_name.items[name] = *tensor + 1;
    plm_parameter_info *parameter = &graph->parameters.items[graph->parameters.count++];
    *parameter = (plm_parameter_info){.shape = *real, .init = init, .group = group};
    for (int flat = 0; flat < PLM_FLAT_COUNT; flat++)
        parameter->flat[flat] = flat == PLM_FLAT_PARAMETER ? *tensor : PLM_TENSOR_NONE;
    graph->group_elements[group] = end;
    for (int flat = 0; flat < PLM_FLAT_COUNT; flat++)
        if (graph->flat_storage[flat][group] >= 0)
            graph->storages.items[graph->flat_storage[flat][group]].bytes =
                flat_offset(graph, (plm_flat)flat, end);
    return PLM_OK;
}

static plm_tensor find_parameter(const plm_graph *graph, uint32_t name)
{
    return name < graph->by_name.count ? graph->by_name.items[name] - 1 : PLM_TENSOR_NONE;
}

/* *shape = `real` with its rows rounded up. */
static plm_status pad_rows(const plm_shape *real, int64_t multiple, plm_shape *shape)
{
    size_t rows;
    PLM_TRY(plm__round_up_bytes((size_t)real->dims[0], (size_t)multiple, &rows));
    PLM_FAIL_IF(rows > INT64_MAX, PLM_ERROR_OVERFLOW,
                "a parameter of %" PRId64 " rows is beyond what can be counted", real->dims[0]);
    *shape = *real;
    shape->dims[0] = (int64_t)rows;
    return PLM_OK;
}

static plm_status parameter(plm_graph *graph, const char *name, const plm_shape *real,
                            int64_t multiple, plm_init init, bool decay, plm_tensor *tensor)
{
    plm_shape shape;
    char full[256];
    const char *layer = plm__intern_text(&graph->names, graph->layer);
    int length = snprintf(full, sizeof full, "%s%s%s", layer, layer[0] ? "." : "", name);
    PLM_FAIL_IF(length < 0 || (size_t)length >= sizeof full, PLM_ERROR_ARGUMENT,
                "wanted a parameter name of under 256 bytes, found '%.40s...'", name);
    uint32_t id;
    PLM_TRY(plm__intern_add(&graph->names, full, (size_t)length, &id));
    PLM_TRY(pad_rows(real, multiple, &shape));
    plm_tensor found = find_parameter(graph, id);
    /* The first micro-batch writes every gradient, and the update is built over what it has. */
    const plm_op_range *first = &graph->programs[PLM_PROGRAM_FIRST];
    PLM_FAIL_IF(found == PLM_TENSOR_NONE && graph->program != PLM_PROGRAM_FIRST &&
                    first->begin != first->end,
                PLM_ERROR_ARGUMENT,
                "parameter '%s' is made in %s; wanted every parameter in %s, which is trained",
                full, plm_program_text(graph->program), plm_program_text(PLM_PROGRAM_FIRST));
    if (found == PLM_TENSOR_NONE)
        return add_parameter(graph, id, real, &shape, init,
                             decay ? PLM_GROUP_DECAY : PLM_GROUP_NO_DECAY, tensor);
    const plm_shape *had = &graph->parameters.items[graph->parameter_of.items[found]].shape;
    char wanted_text[PLM_SHAPE_TEXT], had_text[PLM_SHAPE_TEXT];
    PLM_FAIL_IF(memcmp(had, real, sizeof *real) != 0, PLM_ERROR_ARGUMENT,
                "parameter '%s' wanted as %s, but it was made as %s", full,
                plm__shape_format(real, wanted_text), plm__shape_format(had, had_text));
    PLM_FAIL_IF(plm__graph_tensor(graph, found)->shape.dims[0] != shape.dims[0], PLM_ERROR_ARGUMENT,
                "parameter '%s' is asked for both with padding and without; wanted the same at "
                "every call",
                full);
    *tensor = found;
    return PLM_OK;
}

/* Fills *shape from a caller's dimensions; at least one, each at least 1. */
static plm_status take_shape(plm_dtype dtype, int32_t rank, const int64_t *dims, plm_shape *shape)
{
    *shape = (plm_shape){.dtype = dtype, .rank = rank};
    PLM_FAIL_IF(rank < 1 || rank > PLM_TENSOR_RANK_MAX, PLM_ERROR_ARGUMENT,
                "wanted 1 to %d dimensions, found %d", PLM_TENSOR_RANK_MAX, rank);
    for (int32_t i = 0; i < rank; i++) {
        PLM_FAIL_IF(dims[i] < 1, PLM_ERROR_ARGUMENT,
                    "wanted dimensions of 1 or more, found %" PRId64, dims[i]);
        shape->dims[i] = dims[i];
    }
    return PLM_OK;
}

static plm_tensor make_parameter(plm_graph *graph, const char *name, int32_t rank,
                                 const int64_t *dims, int64_t multiple, plm_init init, bool decay)
{
    plm_shape shape;
    plm_tensor tensor = PLM_TENSOR_NONE;
    if (!plm__graph_check(graph, PLM_OK) ||
        !plm__graph_check(graph, take_shape(graph->strategy.precision, rank, dims, &shape)) ||
        !plm__graph_check(graph, parameter(graph, name, &shape, multiple, init, decay, &tensor)))
        return PLM_TENSOR_NONE;
    return tensor;
}

plm_tensor plm_parameter(plm_graph *graph, const char *name, int32_t rank, const int64_t *dims,
                         plm_init init, bool decay)
{
    return make_parameter(graph, name, rank, dims, 1, init, decay);
}

plm_tensor plm_parameter_padded(plm_graph *graph, const char *name, int32_t rank,
                                const int64_t *dims, plm_init init, bool decay)
{
    return make_parameter(graph, name, rank, dims, graph->row_multiple, init, decay);
}

plm_tensor plm_parameter_named(plm_graph *graph, const char *full_name)
{
    uint32_t id;
    if (!plm__graph_check(graph, PLM_OK) ||
        !plm__graph_check(graph, plm__intern_add(&graph->names, full_name, strlen(full_name), &id)))
        return PLM_TENSOR_NONE;
    plm_tensor found = find_parameter(graph, id);
    if (found == PLM_TENSOR_NONE)
        plm__graph_check(graph,
                         plm_fail(PLM_ERROR_ARGUMENT, "no parameter is called '%s'", full_name));
    return found;
}

plm_tensor plm_input(plm_graph *graph, const char *name, int32_t rank, const int64_t *dims)
{
    plm_shape shape;
    uint32_t id;
    plm_tensor tensor = PLM_TENSOR_NONE;
    if (!plm__graph_check(graph, PLM_OK) ||
        !plm__graph_check(graph, take_shape(PLM_DTYPE_I32, rank, dims, &shape)) ||
        !plm__graph_check(graph, plm__intern_add(&graph->names, name, strlen(name), &id)) ||
        !plm__graph_check(graph, plm__graph_call_tensor(graph, &shape, PLM_ROLE_INPUT, &tensor)))
        return PLM_TENSOR_NONE;
    graph->tensors.items[tensor].name = id;
    return tensor;
}

/* Whether `tensor` is a result or an input of this graph; a failure when it is not. */
static bool check_result(plm_graph *graph, plm_tensor tensor, const char *what)
{
    if (!plm__graph_check(graph, PLM_OK))
        return false;
    bool known = tensor > PLM_TENSOR_STEP && tensor < graph->tensors.count;
    return (known && graph->parameter_of.items[tensor] < 0) ||
           plm__graph_check(graph, plm_fail(PLM_ERROR_ARGUMENT,
                                            "wanted a result of this graph to %s, found %s", what,
                                            known ? "a parameter" : "none"));
}

plm_tensor plm_name(plm_graph *graph, plm_tensor tensor, const char *name)
{
    uint32_t id;
    if (!check_result(graph, tensor, "name") ||
        !plm__graph_check(graph, plm__intern_add(&graph->names, name, strlen(name), &id)))
        return PLM_TENSOR_NONE;
    graph->tensors.items[tensor].name = id;
    return tensor;
}

void plm_output(plm_graph *graph, plm_tensor tensor)
{
    if (check_result(graph, tensor, "read"))
        graph->tensors.items[tensor].is_output = true;
}

plm_tensor plm__graph_flat(plm_graph *graph, plm_tensor tensor, plm_flat flat)
{
    if (tensor == PLM_TENSOR_NONE)
        return PLM_TENSOR_NONE;
    int32_t index = graph->parameter_of.items[tensor];
    PLM_BUG_IF(index < 0, "tensor %d is no parameter", tensor);
    plm_parameter_info *parameter_info = &graph->parameters.items[index];
    if (parameter_info->flat[flat] != PLM_TENSOR_NONE)
        return parameter_info->flat[flat];
    plm_tensor made = PLM_TENSOR_NONE;
    const plm_tensor_info base = *plm__graph_tensor(graph, tensor);
    plm_shape shape = base.shape;
    shape.dtype = flat_dtype(graph, flat);
    size_t offset = flat_offset(graph, flat, base.offset / plm__dtype_size(base.shape.dtype));
    if (!plm__graph_check(graph, need_flat_storage(graph, flat, parameter_info->group)) ||
        !plm__graph_check(graph, add_tensor(graph, &shape,
                                            graph->flat_storage[flat][parameter_info->group],
                                            offset, flats[flat].role, &made)))
        return PLM_TENSOR_NONE;
    graph->tensors.items[made].name = base.name;
    graph->tensors.items[made].layer = base.layer;
    parameter_info->flat[flat] = made;
    return made;
}

int64_t plm__graph_real_columns(const plm_graph *graph, plm_tensor tensor)
{
    const plm_tensor_info *info = plm__graph_tensor(graph, tensor);
    const int64_t columns = info->shape.dims[info->shape.rank - 1];
    while (info->shape.dims[info->shape.rank - 1] == columns && info->producer >= 0) {
        const plm_op *op = &graph->ops.items[info->producer];
        if (plm__op_class(op) == PLM_CLASS_PRODUCT)
            return graph->parameters.items[graph->parameter_of.items[op->in[1]]].shape.dims[0];
        info = plm__graph_tensor(graph, op->in[0]);
    }
    return columns;
}

plm_tensor plm__graph_flat_part(plm_graph *graph, plm_flat flat, plm_group group, size_t begin,
                                size_t end)
{
    int32_t storage = graph->flat_storage[flat][group];
    if (storage < 0)
        return PLM_TENSOR_NONE;
    plm_shape shape = {
        .dtype = flat_dtype(graph, flat), .rank = 1, .dims = {(int64_t)(end - begin)}};
    plm_tensor tensor = PLM_TENSOR_NONE;
    if (!plm__graph_check(graph, add_tensor(graph, &shape, storage, flat_offset(graph, flat, begin),
                                            flats[flat].role, &tensor)))
        return PLM_TENSOR_NONE;
    return tensor;
}

plm_tensor plm__graph_flat_whole(plm_graph *graph, plm_flat flat, plm_group group)
{
    return plm__graph_flat_part(graph, flat, group, 0, graph->group_elements[group]);
}

/* The gradient of a parameter that is updated as soon as it is made: a call tensor. */
static plm_tensor brief_gradient(plm_graph *graph, plm_tensor tensor)
{
    plm_parameter_info *info = &graph->parameters.items[graph->parameter_of.items[tensor]];
    plm_tensor *gradient = &info->flat[PLM_FLAT_GRADIENT];
    const plm_tensor_info base = *plm__graph_tensor(graph, tensor);
    plm_shape shape = base.shape;
    shape.dtype = flat_dtype(graph, PLM_FLAT_GRADIENT);
    if (*gradient != PLM_TENSOR_NONE)
        return *gradient;
    if (!plm__graph_check(graph,
                          plm__graph_call_tensor(graph, &shape, PLM_ROLE_GRADIENT, gradient)))
        return PLM_TENSOR_NONE;
    graph->tensors.items[*gradient].name = base.name;
    graph->tensors.items[*gradient].layer = base.layer;
    graph->parameter_of.items[*gradient] = graph->parameter_of.items[tensor];
    return *gradient;
}

plm_tensor plm__graph_gradient(plm_graph *graph, plm_tensor tensor, bool *accumulate)
{
    plm_tensor gradient = graph->strategy.update == PLM_UPDATE_EARLY
                              ? brief_gradient(graph, tensor)
                              : plm__graph_flat(graph, tensor, PLM_FLAT_GRADIENT);
    if (gradient == PLM_TENSOR_NONE)
        return PLM_TENSOR_NONE;
    plm_parameter_info *info = &graph->parameters.items[graph->parameter_of.items[tensor]];
    uint32_t bit = 1u << graph->program;
    *accumulate = graph->program != PLM_PROGRAM_FIRST || (info->gradient_in & bit) != 0;
    info->gradient_in |= bit;
    return gradient;
}
