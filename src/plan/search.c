/* SPDX-License-Identifier: MIT */
/*
 * The frontier of strategies and the choice from it.
 *
 * Memory is one constraint and blocks are alike, so the cheapest way under a bound mixes at most
 * two choices of recompute: candidates are the first n blocks at one, the others at a lighter one.
 * Heavier ones come first, where the least is kept below them while they are made again.
 *
 * A price's bound is never above the peak of its plan. A point of the frontier fits a budget when
 * its plan does; the fastest that fits is found by planning, from the fastest on, those whose bound
 * fits. Whether a point fits depends on it and the budget alone, which makes the choice monotone.
 */
#include "plan/search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/search_internal.h"
#include "plimsoll/size.h"

enum {
    RUNGS_MAX = 6,
    CHUNKS_MAX = 6,
    MLP_CHUNKS_MAX = 3,
    SPLITS_MAX = 96,       /* ways to part the blocks of two choices, about */
    MICRO_BATCHES_MAX = 16 /* priced, the largest and the smallest among them */
};

#define ACT   PLM_RECOMPUTE_ACT
#define NORM  (ACT | PLM_RECOMPUTE_NORM)
#define MLP   (NORM | PLM_RECOMPUTE_MLP)
#define BLOCK (MLP | PLM_RECOMPUTE_ATTENTION | PLM_RECOMPUTE_BLOCK)

/* The choices for a block, from the lightest. */
static const uint32_t rungs[RUNGS_MAX] = {
    PLM_RECOMPUTE_NONE, ACT, NORM, MLP, MLP | PLM_RECOMPUTE_ATTENTION, BLOCK};

static const int64_t chunk_counts[CHUNKS_MAX] = {1, 2, 4, 8, 16, 32};

static const int64_t mlp_chunk_counts[MLP_CHUNKS_MAX] = {1, 4, 16};

/* A strategy with its price. */
typedef struct point {
    int64_t cost;
    size_t bound; /* of its peak */
    size_t peak;  /* of its plan; 0: not planned yet */
    int64_t micro_batch, chunks, mlp_chunks;
    int32_t split;
    int8_t first, later; /* rungs; -1: the strategy's own */
    plm_attention_form attention;
} point;

struct plm_search {
    plm_job job;
    plm_strategy strategy; /* what it fixes */
    plm_device *device;
    int32_t blocks; /* of the network */
    plm__price_frame frame;
    PLM_ARRAY(point) points; /* the frontier: fastest first, bounds falling */
    size_t smallest;         /* 0: not known yet */
    int64_t smallest_micro_batch;
    int64_t held_at; /* the point of the plan that is held */
    plm_plan *held;  /* the smallest, NULL when another has taken it */
    plm_search_size size;
};

void plm__search_settle_precision(const plm_device *device, plm_strategy *strategy)
{
    if (strategy->precision == PLM_PRECISION_AUTO)
        strategy->precision = plm_device_precision(device);
}

/* Gradients that do not add up want the window whole, and in bf16 head and MLPs too. */
static bool wants_whole_window(const plm_strategy *strategy)
{
    return strategy->gradient != PLM_DTYPE_F32 || strategy->update == PLM_UPDATE_EARLY;
}

static bool is_open(const plm_strategy *strategy)
{
    return strategy->micro_batch == 0 || strategy->head_chunks == 0 || strategy->mlp_chunks == 0 ||
           strategy->attention == PLM_ATTENTION_AUTO || (strategy->recompute & PLM_RECOMPUTE_AUTO);
}

/* ---- pricing ------------------------------------------------------------------------------- */

/* The prices of one micro-batch with one form of attention. */
typedef struct table {
    int64_t micro_batch;
    plm_attention_form attention;
    int rung_count, chunk_count;
    plm__price rung[RUNGS_MAX][MLP_CHUNKS_MAX]; /* head as in chunk[0] */
    int mlp_count[RUNGS_MAX];                   /* of a rung, 1 where its MLPs are kept */
    int64_t mlp_chunks[MLP_CHUNKS_MAX];
    plm__price chunk[CHUNKS_MAX]; /* blocks not looked at */
    int64_t chunks[CHUNKS_MAX];
} table;

static void table_fini(table *t)
{
    for (int i = 0; i < RUNGS_MAX; i++)
        for (int m = 0; m < MLP_CHUNKS_MAX; m++)
            plm__price_fini(&t->rung[i][m]);
    for (int i = 0; i < CHUNKS_MAX; i++)
        plm__price_fini(&t->chunk[i]);
}

/* The strategy of one table, its open choices set to these. */
static plm_strategy settle(const plm_search *search, const table *t, int64_t chunks,
                           int64_t mlp_chunks, int rung)
{
    plm_strategy strategy = search->strategy;
    strategy.micro_batch = t->micro_batch;
    strategy.attention = t->attention;
    if (strategy.head_chunks == 0)
        strategy.head_chunks = chunks;
    if (strategy.mlp_chunks == 0)
        strategy.mlp_chunks = mlp_chunks;
    if (strategy.recompute & PLM_RECOMPUTE_AUTO)
        strategy.recompute = rungs[rung];
    return strategy;
}

/*
 * The frame of a strategy with the first of each open choice, of a job of one micro-batch that only
 * trains: more of it would build the blocks again. Blocks of which a strategy lists each
 * one's recompute are all looked at; so is a network that is too large even so, to be refused or
 * left out where its sizes show.
 */
static plm_status find_frame(plm_search *search)
{
    const plm_strategy *open = &search->strategy;
    table t = {.micro_batch = open->micro_batch          ? open->micro_batch
                              : wants_whole_window(open) ? search->job.batch
                                                         : 1,
               .attention =
                   open->attention == PLM_ATTENTION_AUTO ? PLM_ATTENTION_FUSED : open->attention};
    plm_strategy strategy = settle(search, &t, 1, 1, 0);
    plm_job job = search->job;
    job.batch = t.micro_batch;
    job.evaluates = job.generates = false;
    if (!(open->recompute & PLM_RECOMPUTE_AUTO) && open->recompute_count > 0)
        return PLM_OK;
    search->size.sketched++;
    plm_status status = plm__price_frame_make(&job, &strategy, search->device, &search->frame);
    bool refused = status == PLM_ERROR_OVERFLOW || status == PLM_ERROR_ARGUMENT ||
                   status == PLM_ERROR_UNSUPPORTED;
    return refused ? PLM_OK : status;
}

static plm_status price(plm_search *search, const plm_strategy *strategy, plm__price *made)
{
    search->size.sketched++;
    return plm__price_make(&search->job, strategy, search->device, &search->frame, made);
}

/* A head that cannot be cut has one count of chunks, whole. */
static plm_status price_chunks(plm_search *search, table *t)
{
    bool cut = search->strategy.head_chunks == 0 && search->strategy.gradient == PLM_DTYPE_F32;
    int counts = cut ? CHUNKS_MAX : 1;
    int64_t rows = t->micro_batch * search->job.sequence;
    for (int i = 0; i < counts; i++) {
        if (chunk_counts[i] > rows)
            break;
        plm_strategy strategy = settle(search, t, chunk_counts[i], 1, 0);
        plm_status status = price(search, &strategy, &t->chunk[i]);
        if (status == PLM_ERROR_UNSUPPORTED && i > 0)
            break;
        PLM_TRY(status);
        t->chunks[i] = strategy.head_chunks;
        t->chunk_count = i + 1;
    }
    return PLM_OK;
}

/* Only MLPs that are made again are cut; of a strategy's own choices it is not known which are. */
static int count_mlp_chunks(const plm_search *search, const table *t, int rung)
{
    const plm_strategy *strategy = &search->strategy;
    bool kept = (strategy->recompute & PLM_RECOMPUTE_AUTO) && !(rungs[rung] & PLM_RECOMPUTE_MLP);
    int count = 1;
    if (strategy->mlp_chunks != 0 || strategy->gradient != PLM_DTYPE_F32 || kept)
        return count;
    while (count < MLP_CHUNKS_MAX &&
           mlp_chunk_counts[count] <= t->micro_batch * search->job.sequence)
        count++;
    return count;
}

/* Whether two blocks have the same price at every rung. */
static bool are_alike(const table *t, int32_t a, int32_t b)
{
    for (int i = 0; i < t->rung_count; i++)
        if (memcmp(&t->rung[i][0].block[a], &t->rung[i][0].block[b], sizeof *t->rung[i][0].block))
            return false;
    return true;
}

/* The first block that is like this one. */
static int32_t model_of(const table *t, int32_t block)
{
    int32_t model = 0;
    while (!are_alike(t, model, block))
        model++;
    return model;
}

/*
 * Prices MLP chunks of a rung. Many chunks of many blocks would make the largest of all plans, so
 * in this one a block has the rung when none before it is like it, and gives its price to the
 * others.
 */
static plm_status price_mlp_chunks(plm_search *search, table *t, int rung, int mlp)
{
    plm_strategy strategy = settle(search, t, 1, mlp_chunk_counts[mlp], rung);
    plm__price *made = &t->rung[rung][mlp];
    bool open = search->strategy.recompute & PLM_RECOMPUTE_AUTO;
    t->mlp_chunks[mlp] = strategy.mlp_chunks;
    if (open && mlp > 0) {
        strategy.recompute_count = t->chunk[0].blocks;
        for (int32_t i = 0; i < t->chunk[0].blocks; i++)
            strategy.recompute_of[i] = model_of(t, i) == i ? rungs[rung] : PLM_RECOMPUTE_NONE;
    }
    PLM_TRY(price(search, &strategy, made));
    for (int32_t i = 0; open && mlp > 0 && i < made->blocks; i++)
        made->block[i] = made->block[model_of(t, i)];
    return PLM_OK;
}

static plm_status price_rungs(plm_search *search, table *t)
{
    t->rung_count = search->strategy.recompute & PLM_RECOMPUTE_AUTO ? RUNGS_MAX : 1;
    search->blocks = plm__price_blocks(&t->chunk[0]);
    if (search->blocks == 0)
        t->rung_count = 1;
    for (int i = 0; i < t->rung_count; i++)
        PLM_TRY(price_mlp_chunks(search, t, i, 0));
    for (int i = 0; i < t->rung_count; i++) {
        t->mlp_count[i] = count_mlp_chunks(search, t, i);
        for (int mlp = 1; mlp < t->mlp_count[i]; mlp++)
            PLM_TRY(price_mlp_chunks(search, t, i, mlp));
    }
    return PLM_OK;
}

/* The places in a table of what a point is made of. */
typedef struct mixture {
    int chunk, mlp;
    int first, later;
} mixture;

static plm_status add_point(plm_search *search, const table *t, const mixture *m, int32_t split)
{
    bool fixed = !(search->strategy.recompute & PLM_RECOMPUTE_AUTO);
    point p = {.micro_batch = t->micro_batch,
               .attention = t->attention,
               .chunks = t->chunks[m->chunk],
               .mlp_chunks = t->mlp_chunks[m->mlp],
               .split = split,
               .first = (int8_t)(fixed ? -1 : m->first),
               .later = (int8_t)(fixed ? -1 : m->later)};
    int later_mlp = t->mlp_count[m->later] > m->mlp ? m->mlp : 0;
    plm__price_mix(&t->chunk[m->chunk], &t->rung[m->first][m->mlp], &t->rung[m->later][later_mlp],
                   split, &p.bound, &p.cost);
    search->size.priced++;
    return PLM_ARRAY_PUSH(&search->points, p);
}

static plm_status mix(plm_search *search, const table *t, mixture m)
{
    int32_t stride = search->blocks / SPLITS_MAX + 1;
    m.later = m.first;
    PLM_TRY(add_point(search, t, &m, 0));
    for (m.later = 0; m.later < m.first; m.later++)
        for (int32_t split = stride; split < search->blocks; split += stride)
            PLM_TRY(add_point(search, t, &m, split));
    return PLM_OK;
}

static plm_status price_form(plm_search *search, int64_t micro_batch, plm_attention_form attention)
{
    table t = {.micro_batch = micro_batch, .attention = attention};
    mixture m;
    plm_status status;
    PLM_TRY_DONE(price_chunks(search, &t));
    PLM_TRY_DONE(price_rungs(search, &t));
    for (m.chunk = 0; m.chunk < t.chunk_count; m.chunk++)
        for (m.first = 0; m.first < t.rung_count; m.first++)
            for (m.mlp = 0; m.mlp < t.mlp_count[m.first]; m.mlp++)
                PLM_TRY_DONE(mix(search, &t, m));
done:
    table_fini(&t);
    return status;
}

/* A form whose sizes are beyond counting is left out where there is another. */
static plm_status price_micro_batch(plm_search *search, int64_t micro_batch)
{
    plm_attention_form form = search->strategy.attention;
    if (form != PLM_ATTENTION_AUTO)
        return price_form(search, micro_batch, form);
    PLM_TRY(price_form(search, micro_batch, PLM_ATTENTION_FUSED));
    plm_status status = price_form(search, micro_batch, PLM_ATTENTION_PLAIN);
    return status == PLM_ERROR_OVERFLOW ? PLM_OK : status;
}

/* Sizes beyond counting do not fit any budget, and a small micro-batch may have fewer rows than the
 * strategy's chunks: that is a failure only when it is so of all. */
static bool is_left_out(const plm_search *search, int64_t micro_batch, plm_status status)
{
    const plm_strategy *strategy = &search->strategy;
    int64_t rows = micro_batch * search->job.sequence;
    return status == PLM_ERROR_OVERFLOW ||
           (status == PLM_ERROR_ARGUMENT &&
            (strategy->head_chunks > rows || strategy->mlp_chunks > rows));
}

/* The divisors of the batch; of more than MICRO_BATCHES_MAX an even choice among them. */
static plm_status price_all(plm_search *search)
{
    const int64_t batch = search->job.batch;
    if (search->strategy.micro_batch != 0)
        return price_micro_batch(search, search->strategy.micro_batch);
    if (wants_whole_window(&search->strategy))
        return price_micro_batch(search, batch);
    int64_t divisors = 0, index = 0;
    for (int64_t i = 1; i <= batch; i++)
        divisors += batch % i == 0;
    plm_status status = PLM_OK;
    for (int64_t i = 1; i <= batch; i++) {
        if (batch % i != 0)
            continue;
        int64_t place = index++;
        bool chosen = divisors <= MICRO_BATCHES_MAX ||
                      place * (MICRO_BATCHES_MAX - 1) / (divisors - 1) !=
                          (place - 1) * (MICRO_BATCHES_MAX - 1) / (divisors - 1) ||
                      place == 0;
        if (!chosen)
            continue;
        status = price_micro_batch(search, i);
        if (status != PLM_OK && !is_left_out(search, i, status))
            return status;
    }
    return search->points.count > 0 ? PLM_OK : status;
}

/* ---- the frontier -------------------------------------------------------------------------- */

#define COMPARE(a, b)                                                                              \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

/* Faster, then smaller, then a fixed order: fewer passes, fused before plain, fewer chunks, lighter
 * choices. */
static int order(const void *left, const void *right)
{
    const point *a = left, *b = right;
    COMPARE(a->cost, b->cost);
    COMPARE(a->bound, b->bound);
    COMPARE(b->micro_batch, a->micro_batch);
    COMPARE(a->attention, b->attention);
    COMPARE(a->chunks, b->chunks);
    COMPARE(a->mlp_chunks, b->mlp_chunks);
    COMPARE(a->first, b->first);
    COMPARE(a->later, b->later);
    COMPARE(a->split, b->split);
    return 0;
}

static void keep_frontier(plm_search *search)
{
    int64_t kept = 0;
    PLM_ARRAY_SORT(&search->points, order);
    for (int64_t i = 0; i < search->points.count; i++)
        if (kept == 0 || search->points.items[i].bound < search->points.items[kept - 1].bound)
            search->points.items[kept++] = search->points.items[i];
    search->points.count = kept;
    search->size.frontier = kept;
}

plm_status plm__search_create(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                              plm_search **search)
{
    PLM_TRY(plm__plan_check_extents(job, strategy->micro_batch));
    plm_search *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->job = *job;
    made->strategy = *strategy;
    made->device = device;
    plm__search_settle_precision(device, &made->strategy);
    plm_status status = find_frame(made);
    if (status == PLM_OK)
        status = price_all(made);
    if (status != PLM_OK) {
        plm__search_destroy(made);
        return status;
    }
    keep_frontier(made);
    *search = made;
    return PLM_OK;
}

void plm__search_destroy(plm_search *search)
{
    if (!search)
        return;
    PLM_ARRAY_FREE(&search->points);
    plm_plan_destroy(search->held);
    plm__host_free(search);
}

plm_search_size plm__search_count(const plm_search *search)
{
    return search->size;
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* Every block is listed where they differ, so that the strategy as JSON says the whole of it. */
static plm_strategy strategy_of(const plm_search *search, const point *p)
{
    plm_strategy strategy = search->strategy;
    strategy.micro_batch = p->micro_batch;
    strategy.attention = p->attention;
    strategy.head_chunks = p->chunks;
    strategy.mlp_chunks = p->mlp_chunks;
    if (p->first < 0)
        return strategy;
    bool differ = p->split > 0 && p->first != p->later;
    strategy.recompute = differ ? PLM_RECOMPUTE_NONE : rungs[p->later];
    strategy.recompute_count = differ ? search->blocks : 0;
    for (int32_t i = 0; i < strategy.recompute_count; i++)
        strategy.recompute_of[i] = rungs[i < p->split ? p->first : p->later];
    return strategy;
}

/* Plans a point; its peak is remembered. */
static plm_status plan_point(plm_search *search, point *p, plm_plan **plan)
{
    plm_strategy strategy = strategy_of(search, p);
    PLM_TRY(plm_plan_create(&search->job, &strategy, search->device, plan));
    search->size.planned += p->peak == 0;
    p->peak = (*plan)->summary.peak_bytes; /* not below the bound */
    PLM_BUG_IF(p->cost != (*plan)->summary.step_cost,
               "a strategy was priced at %lld, its plan %lld", (long long)p->cost,
               (long long)(*plan)->summary.step_cost);
    PLM_BUG_IF(p->bound != (*plan)->summary.lower_bound_bytes + (*plan)->summary.overhead_bytes,
               "a strategy was bound by %zu bytes, its plan by %zu", p->bound,
               (*plan)->summary.lower_bound_bytes + (*plan)->summary.overhead_bytes);
    return PLM_OK;
}

/* Whoever asks for the smallest often wants its plan next. */
static void hold(plm_search *search, int64_t at, plm_plan **plan)
{
    plm_plan_destroy(search->held);
    search->held = *plan;
    search->held_at = at;
    *plan = NULL;
}

/* From the smallest bound on, until no bound is below the smallest peak. */
plm_status plm__search_smallest(plm_search *search, size_t *bytes)
{
    for (int64_t i = search->points.count - 1; i >= 0 && search->smallest == 0; i--) {
        size_t best = 0;
        for (int64_t k = i; k >= 0 && (best == 0 || search->points.items[k].bound < best); k--) {
            point *p = &search->points.items[k];
            plm_plan *plan = NULL;
            if (p->peak == 0)
                PLM_TRY(plan_point(search, p, &plan));
            if (best == 0 || p->peak < best) {
                best = p->peak;
                search->smallest_micro_batch = p->micro_batch;
                hold(search, k, &plan);
            }
            plm_plan_destroy(plan);
        }
        search->smallest = best;
    }
    *bytes = search->smallest;
    return PLM_OK;
}

static plm_status refuse(plm_search *search, size_t budget_bytes)
{
    char wanted[PLM_SIZE_TEXT], found[PLM_SIZE_TEXT];
    size_t smallest;
    PLM_TRY(plm__search_smallest(search, &smallest));
    plm_oom_record oom = {.asked_bytes = smallest,
                          .rounded_bytes = smallest,
                          .budget_bytes = budget_bytes,
                          .largest_free_bytes = budget_bytes};
    plm_status status =
        plm_fail(PLM_ERROR_BUDGET,
                 "a budget of %s (%zu bytes) does not fit this run; the smallest that does is %s "
                 "(%zu bytes), with a micro-batch of %" PRId64,
                 plm_size_format(budget_bytes, found), budget_bytes,
                 plm_size_format(smallest, wanted), smallest, search->smallest_micro_batch);
    plm__fail_oom(&oom);
    return status;
}

plm_status plm__search_plan(plm_search *search, size_t budget_bytes, plm_plan **plan)
{
    for (int64_t i = 0; i < search->points.count; i++) {
        point *p = &search->points.items[i];
        plm_plan *made = NULL;
        if (p->bound > budget_bytes || p->peak > budget_bytes)
            continue;
        if (search->held && search->held_at == i) {
            made = search->held;
            search->held = NULL;
        } else {
            PLM_TRY(plan_point(search, p, &made));
        }
        if (p->peak <= budget_bytes) {
            *plan = made;
            return PLM_OK;
        }
        plm_plan_destroy(made);
    }
    return refuse(search, budget_bytes);
}

/* A strategy that leaves nothing open is planned and compared, no more. */
static plm_status plan_fixed(plm_search *search, size_t budget_bytes, size_t *smallest_budget,
                             plm_plan **plan)
{
    plm_plan *made = NULL;
    PLM_TRY(plm_plan_create(&search->job, &search->strategy, search->device, &made));
    size_t peak = made->summary.peak_bytes;
    if (smallest_budget)
        *smallest_budget = peak;
    if (peak <= budget_bytes) {
        *plan = made;
        return PLM_OK;
    }
    plm_plan_destroy(made);
    search->smallest = peak;
    search->smallest_micro_batch = search->strategy.micro_batch;
    return refuse(search, budget_bytes);
}

plm_status plm_plan_for_budget(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                               size_t budget_bytes, size_t *smallest_budget, plm_plan **plan)
{
    plm_search *search = NULL;
    plm_plan *made = NULL;
    plm_status status;
    if (!is_open(strategy)) {
        plm_search fixed = {.job = *job, .strategy = *strategy, .device = device};
        plm__search_settle_precision(device, &fixed.strategy);
        return plan_fixed(&fixed, budget_bytes, smallest_budget, plan);
    }
    PLM_TRY(plm__search_create(job, strategy, device, &search));
    if (smallest_budget)
        PLM_TRY_DONE(plm__search_smallest(search, smallest_budget));
    PLM_TRY_DONE(plm__search_plan(search, budget_bytes, &made));
    *plan = made;
done:
    plm__search_destroy(search);
    return status;
}
