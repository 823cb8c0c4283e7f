/* SPDX-License-Identifier: MIT */
/* From the host to the slot on the copy queue, from the slot to the program on the compute queue.
 */
#include "run/feed.h"

#include "base/size.h"
#include "plan/step_cost.h"
#include "plimsoll/session.h"

struct plm_feed {
    plm_device *device;
    const plm_device_table *table;
    plm_load slot;
    size_t bytes[PLM_SLOT_PARTS];
    uint8_t *host;     /* a load for each micro-batch of each step in flight */
    size_t load_bytes; /* of one, its parts at whole granules */
    int64_t loads;     /* of a step */
    void *arrived;     /* signals */
    void *taken;
};

static void find_slot(plm_feed *feed, const plm_plan *plan, uint8_t *arena)
{
    for (int i = 0; i < PLM_SLOT_PARTS; i++) {
        if (plan->slot.parts[i] == PLM_TENSOR_NONE)
            continue;
        const plm_tensor_info *info = plm__graph_tensor(plan->graph, plan->slot.parts[i]);
        feed->slot.parts[i] = arena + plan->places[info->storage].offset;
        feed->bytes[i] = info->bytes;
    }
}

static plm_status start(plm_feed *feed, const plm_plan *plan)
{
    const plm_plan_summary *summary = &plan->summary;
    size_t bytes;
    void *host = NULL;
    feed->load_bytes = plan->slot.bytes;
    feed->loads =
        1 + plm__program_runs(PLM_PROGRAM_NEXT, summary->batch, summary->strategy.micro_batch);
    PLM_TRY(
        plm__mul_bytes(feed->load_bytes, (size_t)feed->loads * PLM_STEPS_IN_FLIGHT_MAX, &bytes));
    PLM_TRY(feed->table->reserve_host(feed->device, bytes, &host));
    feed->host = host;
    PLM_TRY(feed->table->create_signal(feed->device, &feed->arrived));
    return feed->table->create_signal(feed->device, &feed->taken);
}

plm_status plm__feed_create(const plm_plan *plan, plm_device *device, uint8_t *arena,
                            plm_feed **feed)
{
    plm_feed *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->device = device;
    made->table = device->table;
    find_slot(made, plan, arena);
    plm_status status = start(made, plan);
    return PLM_HAND_OVER(status, made, plm__feed_destroy, feed);
}

void plm__feed_destroy(plm_feed *feed)
{
    if (!feed)
        return;
    feed->table->destroy_signal(feed->device, feed->arrived);
    feed->table->destroy_signal(feed->device, feed->taken);
    feed->table->release_host(feed->device, feed->host);
    plm__host_free(feed);
}

plm_load plm__feed_load(const plm_feed *feed, int64_t step, int64_t index)
{
    int64_t turn = step % PLM_STEPS_IN_FLIGHT_MAX;
    uint8_t *at = feed->host + (size_t)(turn * feed->loads + index) * feed->load_bytes;
    plm_load load = {{NULL}};
    for (int i = 0; i < PLM_SLOT_PARTS; i++) {
        if (feed->slot.parts[i])
            load.parts[i] = at;
        at += plm__granules(feed->bytes[i]);
    }
    return load;
}

static plm_status copy(plm_feed *feed, plm_queue queue, const plm_load *from, const plm_load *to)
{
    for (int i = 0; i < PLM_SLOT_PARTS; i++)
        if (feed->slot.parts[i])
            PLM_TRY(feed->table->copy(feed->device, queue, to->parts[i], from->parts[i],
                                      feed->bytes[i]));
    return PLM_OK;
}

plm_status plm__feed_bring(plm_feed *feed, const plm_load *from, const plm_load *to)
{
    const plm_device_table *table = feed->table;
    PLM_TRY(table->wait(feed->device, PLM_QUEUE_COPY, feed->taken));
    PLM_TRY(copy(feed, PLM_QUEUE_COPY, from, &feed->slot));
    PLM_TRY(table->signal(feed->device, PLM_QUEUE_COPY, feed->arrived));
    PLM_TRY(table->wait(feed->device, PLM_QUEUE_COMPUTE, feed->arrived));
    PLM_TRY(copy(feed, PLM_QUEUE_COMPUTE, &feed->slot, to));
    return table->signal(feed->device, PLM_QUEUE_COMPUTE, feed->taken);
}
