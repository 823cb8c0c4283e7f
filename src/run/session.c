/* SPDX-License-Identifier: MIT */
/*
 * The executor: one arena, every operation bound to its place in it, programs run in the order of
 * the schedule. It decides nothing: what it runs, and where, is the plan's.
 */
#include "run/session.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/size.h"
#include "plan/tape.h"
#include "run/check.h"
#include "run/feed.h"
#include "run/profile.h"
#include "base/dtype.h"

typedef struct bound_op {
    plm_launch launch;
    void *prepared;
} bound_op;

/* Ids as the caller gave them. */
typedef struct window {
    int64_t sequences;
    const int32_t *ids[PLM_INPUT_COUNT]; /* [sequences, T]; NULL: all 0 */
} window;

/* What fills up a micro-batch: token 0, targets that are not counted, type 0. */
static const int fillers[PLM_INPUT_COUNT] = {[PLM_INPUT_TARGETS] = 0xFF};

/* A step that was submitted and not collected. */
typedef struct flight {
    int64_t counted;
    plm_step_record
        *record; /* as the step leaves it: in the host's memory, written by the device */
    void *done;  /* the signal that it was written */
} flight;

/* How a program is run. */
typedef plm_status run_function(plm_session *session, plm_program program);

struct plm_session {
    run_function *run;
    plm_check *check; /* NULL unless launches are checked */
    const plm_plan *plan;
    plm_device *device;
    const plm_device_table *table;
    uint8_t *arena;
    bound_op *ops;
    void *graphs[PLM_PROGRAM_COUNT];    /* of devices that record programs; NULL: not yet */
    bool has_run[PLM_PROGRAM_COUNT];    /* once, launch by launch */
    plm_load inputs[PLM_PROGRAM_COUNT]; /* where each reads them */
    plm_feed *feed;             /* of steps, on devices with a copy queue; NULL: inputs are copied
                                   when their turn comes, as those of evaluations always are */
    plm_tensor logits;          /* output of GENERATE, PLM_TENSOR_NONE without one */
    int64_t token_limit;        /* ids must be smaller: rows of the smallest table looked up */
    int64_t target_limit;       /* targets must be smaller: width of the logits without padding */
    int64_t type_limit;         /* types must be smaller */
    const int32_t *given_types; /* of the window, borrowed; NULL: all 0 */
    int32_t *padding;           /* [micro_batch, T], of an input that must be filled up */
    plm_profile *profile;       /* borrowed; NULL: none */
    plm_tape *tape;             /* likewise; without either nothing is timed */
    plm_step_record record;     /* host side of the step record */
    plm_step_record *left;      /* of `flights`, in memory that the device writes */
    flight flights[PLM_STEPS_IN_FLIGHT_MAX]; /* by number of the step, in turn */
    int64_t submitted, collected;            /* steps so far */
};

static const plm_flat part_flats[] = {
    [PLM_PART_VALUE] = PLM_FLAT_PARAMETER, /* or the master, where there is one */
    [PLM_PART_GRADIENT] = PLM_FLAT_GRADIENT,
    [PLM_PART_MOMENT1] = PLM_FLAT_MOMENT1,
    [PLM_PART_MOMENT2] = PLM_FLAT_MOMENT2,
};

plm_hyper plm_hyper_default(void)
{
    return (plm_hyper){.learning_rate = 6e-4f,
                       .weight_decay = 0.1f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .epsilon = 1e-8f,
                       .clip_norm = 1.0f,
                       .momentum = 0.9f,
                       .scale_growth_interval = 2000};
}

static uint8_t *address_of(const plm_session *session, plm_tensor tensor)
{
    const plm_tensor_info *info = plm__graph_tensor(session->plan->graph, tensor);
    return session->arena + session->plan->places[info->storage].offset + info->offset;
}

static void bind(const plm_session *session, plm_tensor tensor, plm_operand *operand)
{
    if (tensor != PLM_TENSOR_NONE)
        operand->data = address_of(session, tensor);
}

static plm_status bind_op(plm_session *session, int64_t index)
{
    const plm_op *op = &session->plan->graph->ops.items[index];
    const plm_workspace *workspace = &session->plan->workspaces[index];
    plm_launch *launch = &session->ops[index].launch;
    plm__plan_launch(session->plan->graph, op, launch);
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        bind(session, op->in[i], &launch->in[i]);
    for (int i = 0; i < PLM_OP_OUTPUTS_MAX; i++)
        bind(session, op->out[i], &launch->out[i]);
    for (int i = 0; i < PLM_OP_EFFECTS_MAX; i++)
        bind(session, op->effect[i], &launch->effect[i]);
    if (workspace->bytes > 0)
        launch->workspace = session->arena + workspace->offset;
    launch->workspace_bytes = workspace->bytes;
    launch->step = (plm_step_record *)(void *)address_of(session, PLM_TENSOR_STEP);
    return session->table->prepare(session->device, launch, &session->ops[index].prepared);
}

static void find_tensors(plm_session *session)
{
    const plm_graph *graph = session->plan->graph;
    for (int64_t i = 0; i < graph->tensors.count; i++) {
        const plm_tensor_info *info = &graph->tensors.items[i];
        const plm_storage *storage = &graph->storages.items[info->storage];
        if (info->bytes != storage->bytes) /* a view */
            continue;
        if (info->is_output && storage->program == PLM_PROGRAM_GENERATE)
            session->logits = (plm_tensor)i;
        if (info->role == PLM_ROLE_INPUT && storage->scope == PLM_SCOPE_CALL)
            session->inputs[storage->program].parts[plm__plan_input(graph, info)] =
                address_of(session, (plm_tensor)i);
    }
    for (int program = 0; program < PLM_PROGRAM_COUNT; program++)
        session->inputs[program].parts[PLM_SLOT_RECORD] = address_of(session, PLM_TENSOR_STEP);
}

/* Ids looked up by `op` must be smaller than its table's rows. */
static void limit_ids(plm_session *session, const plm_op *op)
{
    const plm_graph *graph = session->plan->graph;
    const char *name = plm__intern_text(&graph->names, plm__graph_tensor(graph, op->in[0])->name);
    int64_t *limit = strcmp(name, "types") == 0 ? &session->type_limit : &session->token_limit;
    int64_t rows = graph->parameters.items[graph->parameter_of.items[op->in[1]]].shape.dims[0];
    if (rows < *limit)
        *limit = rows;
}

static void find_limits(plm_session *session)
{
    const plm_graph *graph = session->plan->graph;
    session->token_limit = session->target_limit = session->type_limit = INT32_MAX;
    for (int64_t i = 0; i < graph->ops.count; i++) {
        const plm_op *op = &graph->ops.items[i];
        if (op->kind == PLM_OP_EMBEDDING) {
            limit_ids(session, op);
        } else if (op->kind == PLM_OP_CROSS_ENTROPY) {
            if (op->attr.columns < session->target_limit)
                session->target_limit = op->attr.columns;
        }
    }
}

static plm_status run_plain(plm_session *session, plm_program program)
{
    const plm_op_range range = session->plan->graph->programs[program];
    for (int64_t i = range.begin; i < range.end; i++)
        PLM_TRY(session->table->launch(session->device, &session->ops[i].launch,
                                       session->ops[i].prepared));
    return PLM_OK;
}

/*
 * For devices that record programs: the first run, launch by launch, makes the libraries load what
 * they load at first use; the second is recorded, and from then on the whole program is enqueued
 * at once.
 */
static plm_status run_recorded(plm_session *session, plm_program program)
{
    void **graph = &session->graphs[program];
    if (!session->has_run[program]) {
        PLM_TRY(run_plain(session, program));
        session->has_run[program] = true;
        return PLM_OK;
    }
    if (!*graph) {
        PLM_TRY(session->table->begin_graph(session->device));
        plm_status status = run_plain(session, program);
        plm_status ended =
            session->table->end_graph(session->device, status == PLM_OK ? graph : NULL);
        PLM_TRY(status);
        PLM_TRY(ended);
    }
    return session->table->run_graph(session->device, *graph);
}

/* One operation, to its end; where launches are checked, what the check takes counts too. */
static plm_status launch_to_end(plm_session *session, int64_t index)
{
    const bound_op *op = &session->ops[index];
    if (session->check)
        return plm__check_launch(session->check, index, &op->launch, op->prepared);
    PLM_TRY(session->table->launch(session->device, &op->launch, op->prepared));
    return session->table->fence(session->device);
}

static plm_status run_timed(plm_session *session, plm_program program)
{
    const plm_op_range range = session->plan->graph->programs[program];
    plm_span *span = session->tape ? plm__tape_begin(session->tape, program) : NULL;
    if (session->check)
        PLM_TRY(plm__check_begin(session->check, program));
    PLM_TRY(session->table->fence(session->device));
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t began_ns = plm__clock_ns();
        PLM_TRY(launch_to_end(session, i));
        int64_t ended_ns = plm__clock_ns();
        if (session->profile)
            plm__profile_add(session->profile, i, ended_ns - began_ns);
        if (span)
            *span++ = (plm_span){began_ns, ended_ns};
    }
    if (session->tape && plm__tape_is_full(session->tape))
        plm_session_tape(session, NULL);
    return PLM_OK;
}

static plm_status run_checked(plm_session *session, plm_program program)
{
    const plm_op_range range = session->plan->graph->programs[program];
    PLM_TRY(plm__check_begin(session->check, program));
    for (int64_t i = range.begin; i < range.end; i++)
        PLM_TRY(plm__check_launch(session->check, i, &session->ops[i].launch,
                                  session->ops[i].prepared));
    return PLM_OK;
}

static void choose_run(plm_session *session)
{
    session->run = session->profile || session->tape ? run_timed
                   : session->check                  ? run_checked
                   : session->table->begin_graph     ? run_recorded
                                                     : run_plain;
}

void plm_session_profile(plm_session *session, plm_profile *profile)
{
    session->profile = profile;
    choose_run(session);
}

void plm_session_tape(plm_session *session, plm_tape *tape)
{
    session->tape = tape;
    choose_run(session);
}

enum { PIECE = 1024 }; /* elements that are converted at once */

static float from_half(plm_dtype dtype, uint16_t bits)
{
    return dtype == PLM_DTYPE_BF16 ? plm__from_bf16(bits) : plm__from_fp16(bits);
}

static uint16_t to_half(plm_dtype dtype, float value)
{
    return dtype == PLM_DTYPE_BF16 ? plm__to_bf16(value) : plm__to_fp16(value);
}

/* Copies `count` real numbers out of the device's memory, as fp32 whatever they are there. */
static plm_status read_reals(plm_session *session, const uint8_t *from, plm_dtype dtype,
                             int64_t count, float *values)
{
    uint16_t piece[PIECE];
    int64_t step = dtype == PLM_DTYPE_F32 ? count : PIECE;
    for (int64_t done = 0, now; done < count; done += now) {
        now = count - done < step ? count - done : step;
        size_t width = plm__dtype_size(dtype);
        void *to = dtype == PLM_DTYPE_F32 ? (void *)values : (void *)piece;
        PLM_TRY(session->table->copy_out(session->device, to, from + (size_t)done * width,
                                         (size_t)now * width));
        PLM_TRY(session->table->fence(session->device));
        for (int64_t i = 0; dtype != PLM_DTYPE_F32 && i < now; i++)
            values[done + i] = from_half(dtype, piece[i]);
    }
    return PLM_OK;
}

/* The other way: fp32 values are rounded to what the device holds. */
static plm_status write_reals(plm_session *session, uint8_t *to, plm_dtype dtype, int64_t count,
                              const float *values)
{
    uint16_t piece[PIECE];
    if (dtype == PLM_DTYPE_F32)
        return session->table->copy_in(session->device, to, values, (size_t)count * sizeof(float));
    for (int64_t done = 0, now; done < count; done += now) {
        now = count - done < PIECE ? count - done : PIECE;
        for (int64_t i = 0; i < now; i++)
            piece[i] = to_half(dtype, values[done + i]);
        PLM_TRY(session->table->copy_in(session->device, to + (size_t)done * sizeof *piece, piece,
                                        (size_t)now * sizeof *piece));
    }
    return PLM_OK;
}

/* Writes the host's part of the step record. */
static plm_status write_record(plm_session *session)
{
    return session->table->copy_in(session->device, address_of(session, PLM_TENSOR_STEP),
                                   &session->record, PLM_STEP_HOST_BYTES);
}

/* The operations' part too. */
static plm_status write_whole_record(plm_session *session)
{
    return session->table->copy_in(session->device, address_of(session, PLM_TENSOR_STEP),
                                   &session->record, sizeof session->record);
}

/* What a window adds up, to 0. */
static plm_status clear_sums(plm_session *session)
{
    const size_t begin = PLM_STEP_HOST_BYTES;
    const size_t end = offsetof(plm_step_record, skip) + sizeof session->record.skip;
    return session->table->fill(session->device, address_of(session, PLM_TENSOR_STEP) + begin, 0,
                                end - begin);
}

static plm_status read_record(plm_session *session)
{
    PLM_TRY(session->table->copy_out(session->device, &session->record,
                                     address_of(session, PLM_TENSOR_STEP), sizeof session->record));
    return session->table->fence(session->device);
}

static plm_status make_flights(plm_session *session)
{
    void *left = NULL;
    PLM_TRY(session->table->reserve_host(session->device,
                                         PLM_STEPS_IN_FLIGHT_MAX * sizeof *session->left, &left));
    session->left = left;
    for (int i = 0; i < PLM_STEPS_IN_FLIGHT_MAX; i++) {
        session->flights[i].record = &session->left[i];
        PLM_TRY(session->table->create_signal(session->device, &session->flights[i].done));
    }
    return PLM_OK;
}

static void end_flights(plm_session *session)
{
    for (int i = 0; i < PLM_STEPS_IN_FLIGHT_MAX; i++)
        session->table->destroy_signal(session->device, session->flights[i].done);
    session->table->release_host(session->device, session->left);
}

static plm_status start(plm_session *session, uint64_t seed)
{
    const plm_plan_summary *summary = &session->plan->summary;
    const plm_graph *graph = session->plan->graph;
    size_t padding = (size_t)(summary->strategy.micro_batch * summary->sequence);
    PLM_TRY(plm__host_alloc(padding * sizeof(int32_t), &session->padding));
    PLM_TRY(plm__host_alloc((size_t)graph->ops.count * sizeof *session->ops, &session->ops));
    void *arena = NULL;
    PLM_TRY(session->table->reserve(session->device, summary->arena_bytes, &arena));
    session->arena = arena;
    if (session->run == run_checked)
        PLM_TRY(plm__check_create(session->plan, session->device, arena, &session->check));
    for (int64_t i = 0; i < graph->ops.count; i++)
        PLM_TRY(bind_op(session, i));
    find_tensors(session);
    find_limits(session);
    PLM_TRY(make_flights(session));
    if (session->plan->slot.bytes > 0)
        PLM_TRY(plm__feed_create(session->plan, session->device, session->arena, &session->feed));
    PLM_TRY(session->table->fill(session->device, session->arena, 0, summary->persistent_bytes));
    session->record.seed = seed;
    session->record.loss_scale =
        summary->strategy.precision == PLM_DTYPE_F16 ? PLM_LOSS_SCALE_START : 1;
    session->record.gradient_factor = 1;
    PLM_TRY(write_whole_record(session));
    PLM_TRY(session->run(session, PLM_PROGRAM_INITIALIZE));
    return session->table->fence(session->device);
}

plm_status plm__session_create_as(const plm_plan *plan, plm_device *device, uint64_t seed,
                                  bool checked, plm_session **session)
{
    plm_session *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->run = checked ? run_checked : device->table->begin_graph ? run_recorded : run_plain;
    made->plan = plan;
    made->device = device;
    made->table = device->table;
    made->logits = PLM_TENSOR_NONE;
    plm_status status = start(made, seed);
    if (status != PLM_OK) {
        plm_session_destroy(made);
        return status;
    }
    *session = made;
    return PLM_OK;
}

plm_status plm_session_create(const plm_plan *plan, plm_device *device, uint64_t seed,
                              plm_session **session)
{
    return plm__session_create_as(plan, device, seed, PLM_CHECK, session);
}

void plm_session_destroy(plm_session *session)
{
    plm_error first;
    if (!session)
        return;
    plm_error_get(&first);
    if (session->arena)
        (void)session->table->fence(session->device); /* what is in flight ends, well or not */
    for (int64_t i = 0; session->arena && i < session->plan->graph->ops.count; i++)
        session->table->forget(session->device, session->ops[i].prepared);
    for (int i = 0; i < PLM_PROGRAM_COUNT; i++)
        if (session->graphs[i])
            session->table->drop_graph(session->device, session->graphs[i]);
    if (session->arena)
        session->table->release(session->device, session->arena,
                                session->plan->summary.arena_bytes);
    if (session->left)
        end_flights(session);
    plm__feed_destroy(session->feed);
    plm__check_destroy(session->check);
    plm__host_free(session->ops);
    plm__host_free(session->padding);
    plm__host_free(session);
    plm__fail_again(&first);
}

void plm_session_use_types(plm_session *session, const int32_t *types)
{
    session->given_types = types;
}

static plm_status check_ids(const char *what, const int32_t *ids, int64_t count, int64_t least,
                            int64_t limit)
{
    for (int64_t i = 0; i < count; i++)
        PLM_FAIL_IF(ids[i] < least || ids[i] >= limit, PLM_ERROR_ARGUMENT,
                    "%s %" PRId64 " is %d; the model knows 0 to %" PRId64, what, i, ids[i],
                    limit - 1);
    return PLM_OK;
}

/* Checks a window's ids and counts its targets. */
static plm_status check_window(const plm_session *session, const window *given, int64_t *counted)
{
    int64_t count = given->sequences * session->plan->summary.sequence;
    const int32_t *targets = given->ids[PLM_INPUT_TARGETS];
    PLM_TRY(check_ids("token", given->ids[PLM_INPUT_TOKENS], count, 0, session->token_limit));
    PLM_TRY(check_ids("target", targets, count, INT32_MIN, session->target_limit));
    if (given->ids[PLM_INPUT_TYPES])
        PLM_TRY(check_ids("type", given->ids[PLM_INPUT_TYPES], count, 0, session->type_limit));
    *counted = 0;
    for (int64_t i = 0; i < count; i++)
        *counted += targets[i] >= 0;
    return PLM_OK;
}

/* Some sequences of a window, as many as a micro-batch holds or fewer. */
typedef struct row_range {
    int64_t first, count;
} row_range;

/* Writes that part of an input, filled up to a whole micro-batch. */
static void fill_up(const plm_session *session, int input, const window *given, row_range rows,
                    int32_t *to)
{
    size_t length = (size_t)session->plan->summary.sequence, taken = 0;
    size_t whole = (size_t)session->plan->summary.strategy.micro_batch * length;
    if (given->ids[input]) {
        taken = (size_t)rows.count * length;
        memcpy(to, given->ids[input] + rows.first * (int64_t)length, taken * sizeof *to);
    }
    memset(to + taken, fillers[input], (whole - taken) * sizeof *to);
}

/* Copies a program's inputs to where it reads them, as one queue does it: now. */
static plm_status copy_inputs(plm_session *session, plm_program program, const window *given,
                              row_range rows)
{
    int64_t length = session->plan->summary.sequence;
    int64_t whole = session->plan->summary.strategy.micro_batch;
    PLM_TRY(write_record(session));
    for (int i = 0; i < PLM_INPUT_COUNT; i++) {
        const int32_t *from = session->padding;
        if (!session->inputs[program].parts[i])
            continue;
        if (given->ids[i] && rows.count == whole)
            from = given->ids[i] + rows.first * length;
        else
            fill_up(session, i, given, rows, session->padding);
        PLM_TRY(session->table->copy_in(session->device, session->inputs[program].parts[i], from,
                                        (size_t)(whole * length) * sizeof *from));
    }
    return PLM_OK;
}

/* Has them brought by the copy queue. */
static plm_status feed_inputs(plm_session *session, plm_program program, const window *given,
                              row_range rows)
{
    int64_t whole = session->plan->summary.strategy.micro_batch;
    plm_load from = plm__feed_load(session->feed, session->submitted, rows.first / whole);
    memcpy(from.parts[PLM_SLOT_RECORD], &session->record, PLM_STEP_HOST_BYTES);
    for (int i = 0; i < PLM_INPUT_COUNT; i++)
        if (from.parts[i])
            fill_up(session, i, given, rows, from.parts[i]);
    return plm__feed_bring(session->feed, &from, &session->inputs[program]);
}

/* Runs the window micro-batch by micro-batch. */
static plm_status run_window(plm_session *session, bool trains, const window *given)
{
    int64_t whole = session->plan->summary.strategy.micro_batch;
    PLM_TRY(clear_sums(session));
    for (int64_t first = 0; first < given->sequences; first += whole) {
        int64_t left = given->sequences - first;
        row_range rows = {first, left < whole ? left : whole};
        plm_program program = !trains      ? PLM_PROGRAM_EVALUATE
                              : first == 0 ? PLM_PROGRAM_FIRST
                                           : PLM_PROGRAM_NEXT;
        session->record.sample_offset = (uint32_t)first;
        PLM_TRY(trains && session->feed ? feed_inputs(session, program, given, rows)
                                        : copy_inputs(session, program, given, rows));
        PLM_TRY(session->run(session, program));
    }
    return PLM_OK;
}

static plm_status has_program(const plm_session *session, plm_program program)
{
    const plm_op_range range = session->plan->graph->programs[program];
    PLM_FAIL_IF(range.begin == range.end, PLM_ERROR_STATE, "the plan has no program '%s'",
                plm_program_text(program));
    return PLM_OK;
}

static plm_status is_idle(const plm_session *session)
{
    int32_t count = plm_session_in_flight(session);
    PLM_FAIL_IF(count > 0, PLM_ERROR_STATE,
                "wanted no step in flight, found %d; collect what was submitted first", (int)count);
    return PLM_OK;
}

static plm_status check_step(const plm_session *session, int64_t step, const plm_hyper *hyper,
                             int64_t sequences)
{
    PLM_TRY(has_program(session, PLM_PROGRAM_FIRST));
    PLM_FAIL_IF(plm_session_in_flight(session) == PLM_STEPS_IN_FLIGHT_MAX, PLM_ERROR_STATE,
                "wanted fewer than %d steps in flight, found %d; collect one first",
                PLM_STEPS_IN_FLIGHT_MAX, PLM_STEPS_IN_FLIGHT_MAX);
    PLM_FAIL_IF(sequences < 1 || sequences > session->plan->summary.batch, PLM_ERROR_ARGUMENT,
                "wanted 1 to %" PRId64 " sequences in a window, found %" PRId64,
                session->plan->summary.batch, sequences);
    PLM_FAIL_IF(step < 0 || step > UINT32_MAX, PLM_ERROR_ARGUMENT,
                "wanted a step of 32 bits, found %" PRId64, step);
    PLM_FAIL_IF(session->plan->summary.strategy.update == PLM_UPDATE_EARLY && hyper->clip_norm > 0,
                PLM_ERROR_ARGUMENT,
                "wanted no clipping with early updates, which never see the norm of all gradients; "
                "found a clip norm of %g",
                (double)hyper->clip_norm);
    return PLM_OK;
}

static void set_scalars(plm_session *session, int64_t step, const plm_hyper *hyper, int64_t counted)
{
    plm_step_record *record = &session->record;
    bool scaled = session->plan->summary.strategy.precision == PLM_DTYPE_F16;
    record->step = (uint32_t)step;
    record->inverse_count = counted > 0 ? (float)(1.0 / (double)counted) : 0;
    record->learning_rate = hyper->learning_rate;
    record->weight_decay = hyper->weight_decay;
    record->beta1 = hyper->beta1;
    record->beta2 = hyper->beta2;
    record->epsilon = hyper->epsilon;
    record->clip_norm = hyper->clip_norm;
    record->momentum = hyper->momentum;
    record->growth_interval = scaled ? hyper->scale_growth_interval : 0;
}

plm_status plm_session_submit(plm_session *session, int64_t step, const plm_hyper *hyper,
                              int64_t sequences, const int32_t *tokens, const int32_t *targets)
{
    int64_t counted;
    flight *next = &session->flights[session->submitted % PLM_STEPS_IN_FLIGHT_MAX];
    const window given = {sequences, {tokens, targets, session->given_types}};
    PLM_TRY(check_step(session, step, hyper, sequences));
    PLM_TRY(check_window(session, &given, &counted));
    set_scalars(session, step, hyper, counted);
    PLM_TRY(run_window(session, true, &given));
    PLM_TRY(session->run(session, PLM_PROGRAM_UPDATE));
    PLM_TRY(session->table->copy(session->device, PLM_QUEUE_COMPUTE, next->record,
                                 address_of(session, PLM_TENSOR_STEP), sizeof *next->record));
    PLM_TRY(session->table->signal(session->device, PLM_QUEUE_COMPUTE, next->done));
    next->counted = counted;
    session->submitted++;
    return PLM_OK;
}

plm_status plm_session_collect(plm_session *session, plm_step_result *result)
{
    const flight *oldest = &session->flights[session->collected % PLM_STEPS_IN_FLIGHT_MAX];
    PLM_FAIL_IF(plm_session_in_flight(session) == 0, PLM_ERROR_STATE,
                "wanted a step in flight, found none; submit one first");
    PLM_TRY(session->table->await(session->device, oldest->done));
    const float loss_scale = session->record.loss_scale; /* as the step before left it */
    const plm_step_record *record = &session->record;
    session->record = *oldest->record;
    session->collected++;
    *result = (plm_step_result){
        .loss = oldest->counted > 0 ? record->loss_sum / (double)oldest->counted : 0,
        .counted = oldest->counted,
        .gradient_norm = record->gradient_norm,
        .loss_scale = loss_scale,
        .skipped = record->skip != 0};
    return PLM_OK;
}

int32_t plm_session_in_flight(const plm_session *session)
{
    return (int32_t)(session->submitted - session->collected);
}

plm_status plm_session_step(plm_session *session, int64_t step, const plm_hyper *hyper,
                            int64_t sequences, const int32_t *tokens, const int32_t *targets,
                            plm_step_result *result)
{
    PLM_TRY(is_idle(session));
    PLM_TRY(plm_session_submit(session, step, hyper, sequences, tokens, targets));
    plm_status status = plm_session_collect(session, result);
    if (status != PLM_OK)
        session->collected = session->submitted;
    return status;
}

plm_status plm_session_evaluate(plm_session *session, int64_t sequences, const int32_t *tokens,
                                const int32_t *targets, double *loss_sum, int64_t *counted)
{
    int64_t found;
    const window given = {sequences, {tokens, targets, session->given_types}};
    PLM_TRY(has_program(session, PLM_PROGRAM_EVALUATE));
    PLM_TRY(is_idle(session));
    PLM_TRY(check_window(session, &given, &found));
    PLM_TRY(run_window(session, false, &given));
    PLM_TRY(read_record(session));
    *loss_sum = session->record.loss_sum;
    *counted = found;
    return PLM_OK;
}

/* Copies an input of GENERATE, [1, T]: `count` ids, then zeros. */
static plm_status copy_row(plm_session *session, int input, int64_t count, const int32_t *ids)
{
    void *to = session->inputs[PLM_PROGRAM_GENERATE].parts[input];
    size_t row_bytes = (size_t)session->plan->summary.sequence * sizeof *ids;
    if (!to)
        return PLM_OK;
    memset(session->padding, 0, row_bytes);
    if (count > 0)
        memcpy(session->padding, ids, (size_t)count * sizeof *ids);
    return session->table->copy_in(session->device, to, session->padding, row_bytes);
}

plm_status plm_session_generate(plm_session *session, int64_t count, const int32_t *tokens,
                                int64_t vocab, float *logits)
{
    int64_t length = session->plan->summary.sequence;
    PLM_TRY(has_program(session, PLM_PROGRAM_GENERATE));
    PLM_TRY(is_idle(session));
    PLM_FAIL_IF(count < 1 || count > length, PLM_ERROR_ARGUMENT,
                "wanted 1 to %" PRId64 " tokens, found %" PRId64, length, count);
    const plm_tensor_info *info = plm__graph_tensor(session->plan->graph, session->logits);
    int64_t columns = plm__graph_real_columns(session->plan->graph, session->logits);
    PLM_FAIL_IF(columns != vocab, PLM_ERROR_ARGUMENT,
                "wanted room for %" PRId64 " logits, found %" PRId64, columns, vocab);
    PLM_TRY(check_ids("token", tokens, count, 0, session->token_limit));
    session->record.position = (int32_t)(count - 1);
    PLM_TRY(write_record(session));
    PLM_TRY(copy_row(session, PLM_INPUT_TOKENS, count, tokens));
    PLM_TRY(copy_row(session, PLM_INPUT_TYPES, 0, NULL));
    PLM_TRY(session->run(session, PLM_PROGRAM_GENERATE));
    return read_reals(session, address_of(session, session->logits), info->shape.dtype, vocab,
                      logits);
}

int64_t plm__session_id_limit(const plm_session *session)
{
    return session->token_limit < session->target_limit ? session->token_limit
                                                        : session->target_limit;
}

int64_t plm__session_parameter_count(const plm_session *session)
{
    return session->plan->graph->parameters.count;
}

const char *plm__session_parameter(const plm_session *session, int64_t index, int32_t *rank,
                                   const int64_t **shape)
{
    const plm_graph *graph = session->plan->graph;
    const plm_parameter_info *parameter = &graph->parameters.items[index];
    *rank = parameter->shape.rank;
    *shape = parameter->shape.dims;
    return plm__intern_text(&graph->names,
                            plm__graph_tensor(graph, parameter->flat[PLM_FLAT_PARAMETER])->name);
}

/* The tensor of a part, PLM_TENSOR_NONE when the plan does not hold it. */
static plm_tensor part_tensor(const plm_session *session, int64_t index, plm_parameter_part part)
{
    const plm_parameter_info *parameter = &session->plan->graph->parameters.items[index];
    plm_tensor master = parameter->flat[PLM_FLAT_MASTER];
    plm_tensor tensor = part == PLM_PART_VALUE && master != PLM_TENSOR_NONE
                            ? master
                            : parameter->flat[part_flats[part]];
    if (tensor == PLM_TENSOR_NONE)
        return PLM_TENSOR_NONE;
    int32_t storage = plm__graph_tensor(session->plan->graph, tensor)->storage;
    /* The gradient of an early update does not outlive it. */
    return session->plan->graph->storages.items[storage].scope == PLM_SCOPE_CALL ? PLM_TENSOR_NONE
                                                                                 : tensor;
}

bool plm__session_has_part(const plm_session *session, int64_t index, plm_parameter_part part)
{
    return part_tensor(session, index, part) != PLM_TENSOR_NONE;
}

/* The weight of 16 bits follows `count` values of its master from `first` on. */
static plm_status follow_master(plm_session *session, int64_t index, int64_t first, int64_t count,
                                const float *values)
{
    const plm_parameter_info *parameter = &session->plan->graph->parameters.items[index];
    if (parameter->flat[PLM_FLAT_MASTER] == PLM_TENSOR_NONE)
        return PLM_OK;
    plm_tensor weight = parameter->flat[PLM_FLAT_PARAMETER];
    plm_dtype dtype = plm__graph_tensor(session->plan->graph, weight)->shape.dtype;
    uint8_t *to = address_of(session, weight) + (size_t)first * plm__dtype_size(dtype);
    return write_reals(session, to, dtype, count, values);
}

plm_status plm__session_copy_out(plm_session *session, int64_t index, plm_parameter_part part,
                                 size_t offset, size_t bytes, void *to)
{
    PLM_TRY(session->table->copy_out(
        session->device, to, address_of(session, part_tensor(session, index, part)) + offset,
        bytes));
    return session->table->fence(session->device);
}

plm_status plm__session_copy_in(plm_session *session, int64_t index, plm_parameter_part part,
                                size_t offset, size_t bytes, const void *from)
{
    uint8_t *to = address_of(session, part_tensor(session, index, part)) + offset;
    PLM_TRY(session->table->copy_in(session->device, to, from, bytes));
    if (part != PLM_PART_VALUE)
        return PLM_OK;
    return follow_master(session, index, (int64_t)(offset / sizeof(float)),
                         (int64_t)(bytes / sizeof(float)), from);
}

plm_session_counters plm__session_counters(const plm_session *session)
{
    const plm_step_record *record = &session->record;
    bool scaled = session->plan->summary.strategy.precision == PLM_DTYPE_F16;
    PLM_BUG_IF(plm_session_in_flight(session) > 0, "counters of a session with steps in flight");
    return (plm_session_counters){.updates = record->update_count,
                                  .skipped = record->skipped_count,
                                  .good = record->good_count,
                                  .loss_scale = scaled ? record->loss_scale : 0};
}

plm_status plm__session_set_counters(plm_session *session, plm_session_counters counters)
{
    plm_step_record *record = &session->record;
    bool scaled = session->plan->summary.strategy.precision == PLM_DTYPE_F16;
    PLM_TRY(is_idle(session));
    record->update_count = counters.updates;
    record->skipped_count = counters.skipped;
    if (scaled && counters.loss_scale > 0) {
        record->good_count = counters.good;
        record->loss_scale = counters.loss_scale;
    }
    return write_whole_record(session);
}

/* *index = the parameter of this name, which the plan holds this part of and which has `count`
 * elements. */
static plm_status find_part(const plm_session *session, const char *name, plm_parameter_part part,
                            int64_t count, int64_t *index)
{
    const plm_graph *graph = session->plan->graph;
    for (int64_t i = 0; i < graph->parameters.count; i++) {
        plm_tensor tensor = part_tensor(session, i, part);
        if (tensor == PLM_TENSOR_NONE ||
            strcmp(plm__intern_text(&graph->names, plm__graph_tensor(graph, tensor)->name), name) !=
                0)
            continue;
        int64_t elements = plm__shape_elements(&graph->parameters.items[i].shape);
        PLM_FAIL_IF(elements != count, PLM_ERROR_ARGUMENT,
                    "parameter '%s' has %" PRId64 " elements, not %" PRId64, name, elements, count);
        *index = i;
        return PLM_OK;
    }
    return plm_fail(PLM_ERROR_ARGUMENT, "no parameter of this plan is called '%s'", name);
}

plm_status plm_session_read(plm_session *session, const char *name, plm_parameter_part part,
                            int64_t count, float *values)
{
    int64_t index;
    PLM_TRY(find_part(session, name, part, count, &index));
    plm_tensor tensor = part_tensor(session, index, part);
    return read_reals(session, address_of(session, tensor),
                      plm__graph_tensor(session->plan->graph, tensor)->shape.dtype, count, values);
}

plm_status plm_session_write(plm_session *session, const char *name, plm_parameter_part part,
                             int64_t count, const float *values)
{
    int64_t index;
    PLM_TRY(find_part(session, name, part, count, &index));
    plm_tensor tensor = part_tensor(session, index, part);
    PLM_TRY(write_reals(session, address_of(session, tensor),
                        plm__graph_tensor(session->plan->graph, tensor)->shape.dtype, count,
                        values));
    return part == PLM_PART_VALUE ? follow_master(session, index, 0, count, values) : PLM_OK;
}

plm_status plm_session_measure_memory(plm_session *session, plm_session_measure *measure)
{
    uint8_t last[PLM_GRANULE_BYTES];
    const uint8_t *end = session->arena + session->plan->summary.arena_bytes;
    PLM_TRY(session->table->copy_out(session->device, last, end - sizeof last, sizeof last));
    PLM_TRY(session->table->fence(session->device));
    bool written = false;
    for (size_t i = 0; i < sizeof last; i++)
        written |= last[i] != PLM_ARENA_PATTERN;
    size_t driver_bytes = 0;
    if (session->table->process_bytes &&
        session->table->process_bytes(session->device, &driver_bytes) != PLM_OK)
        driver_bytes = 0;
    *measure =
        (plm_session_measure){.peak_bytes = session->device->usage.peak_bytes +
                                            session->device->table->overhead_bytes(session->device),
                              .last_granule_written = written,
                              .driver_bytes = driver_bytes};
    return PLM_OK;
}
