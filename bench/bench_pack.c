/* SPDX-License-Identifier: MIT */
/*
 * Packing of GPT-like training steps: how close to the bound, how fast. Times are of plm__pack
 * alone, in CPU time of this thread so that neighbours on the machine disturb it less: the best and
 * the median of several runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unit/gpt_items.h"
#include "kit.h"

enum { RUNS = 15 };

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static plm_status time_pack(const gpt_shape *shape, const plm_pack_item *items, int64_t count,
                            size_t *offsets)
{
    size_t total = 0, bound = 0;
    double us[RUNS];
    for (int run = 0; run < RUNS; run++) {
        double begin = cpu_us();
        PLM_TRY(plm__pack(items, count, offsets, &total));
        us[run] = cpu_us() - begin;
    }
    PLM_TRY(plm__pack_bound(items, count, &bound, NULL));
    qsort(us, RUNS, sizeof *us, ascending);
    char bound_text[PLM_SIZE_TEXT], total_text[PLM_SIZE_TEXT];
    printf("%6d %6d %6d  %-5s %-9s %6lld %12s %12s %9.6f %9.1f %9.1f\n", shape->layers,
           shape->batch, shape->width, shape->plain ? "plain" : "fused",
           shape->recompute ? "recompute" : "keep", (long long)count,
           plm_size_format(bound, bound_text), plm_size_format(total, total_text),
           (double)total / (double)bound, us[0], us[RUNS / 2]);
    return PLM_OK;
}

static plm_status bench_shape(const gpt_shape *shape)
{
    plm_pack_item *items = NULL;
    gpt_kept *kept = NULL;
    size_t *offsets = NULL;
    size_t count_max = (size_t)gpt_items_max(shape);
    plm_status status;
    PLM_TRY_DONE(plm__host_alloc(count_max * sizeof *items, &items));
    PLM_TRY_DONE(plm__host_alloc((size_t)shape->layers * sizeof *kept, &kept));
    PLM_TRY_DONE(plm__host_alloc(count_max * sizeof *offsets, &offsets));
    PLM_TRY_DONE(time_pack(shape, items, gpt_make_items(shape, items, kept), offsets));
done:
    plm__host_free(offsets);
    plm__host_free(kept);
    plm__host_free(items);
    return status;
}

/* Small vocabulary and width, and large workspaces: the hardest of the shapes to pack. */
static gpt_shape small_shape(int layers)
{
    return (gpt_shape){.layers = layers,
                       .batch = 4,
                       .tokens = 64,
                       .width = 128,
                       .heads = 4,
                       .vocabulary = 65,
                       .element_bytes = 4,
                       .head_chunks = 1,
                       .work_seed = 1};
}

static gpt_shape large_shape(int layers)
{
    return (gpt_shape){.layers = layers,
                       .batch = 8,
                       .tokens = 1024,
                       .width = 768,
                       .heads = 12,
                       .vocabulary = 50257,
                       .element_bytes = 2,
                       .head_chunks = 1,
                       .work_seed = 1};
}

int main(void)
{
    static const int layers[] = {2, 6, 12, 24, 48, 96};
    printf("%6s %6s %6s  %-5s %-9s %6s %12s %12s %9s %9s %9s\n", "layers", "batch", "width",
           "heads", "blocks", "items", "bound", "total", "ratio", "best us", "median us");
    for (int large = 0; large < 2; large++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            for (unsigned variant = 0; variant < 4; variant++) {
                gpt_shape shape = large ? large_shape(layers[i]) : small_shape(layers[i]);
                shape.plain = variant & 1;
                shape.recompute = variant & 2;
                if (bench_shape(&shape) != PLM_OK)
                    return EXIT_FAILURE;
            }
    return EXIT_SUCCESS;
}
