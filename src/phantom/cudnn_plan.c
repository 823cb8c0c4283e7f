/* SPDX-License-Identifier: MIT */
/*
 * Reads the real library's descriptors. A plan is never finalized: that would compile and load
 * code. Its workspace is that of its engine's configuration (CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE),
 * equal in 68 of 68 convolutions, but for what depends on multiprocessors (cudnn_split.h) and for
 * engines that are not offered without a card (cudnn_absent.h, plm__cudnn_fft_bytes).
 */
#include "phantom/cudnn_plan.h"

#include "phantom/cudnn_absent.h"
#include "phantom/cudnn_choice.h"
#include "phantom/cudnn_real.h"
#include "phantom/cudnn_split.h"
#include "phantom/phantom.h"

enum { OPERAND_COUNT = 6, KNOBS_MAX = 64, HOPPER = 90, BLACKWELL = 100 };
enum {
    CONVOLUTION = 2,
    FILTER,
    IMAGE,
    OUTPUT
}; /* an operation's attributes after alpha and beta */

static void read_numbers(plm_cudnn_descriptor descriptor, int name, int64_t *numbers)
{
    int64_t count = 0;
    plm__cudnn_real()->get(descriptor, name, CUDNN_TYPE_INT64, PLM_CUDNN_RANK, &count, numbers);
}

static struct plm_cudnn_tensor read_tensor(plm_cudnn_descriptor descriptor)
{
    const struct plm_cudnn_real *real = plm__cudnn_real();
    struct plm_cudnn_tensor tensor = {.type = -1};
    int64_t count = 0, rank = 0;
    real->get(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, PLM_CUDNN_RANK, &rank,
              tensor.dimensions);
    read_numbers(descriptor, CUDNN_ATTR_TENSOR_STRIDES, tensor.strides);
    real->get(descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &count,
              &tensor.type);
    tensor.rank = rank <= PLM_CUDNN_RANK ? (int)rank : 0;
    return tensor;
}

static enum plm_cudnn_direction direction_of(int type)
{
    switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return PLM_CUDNN_FORWARD;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return PLM_CUDNN_FILTER_GRADIENT;
    default:
        return PLM_CUDNN_DATA_GRADIENT;
    }
}

void plm__cudnn_note_operand(struct plm_cudnn_entry *operation, int name,
                             plm_cudnn_descriptor value)
{
    struct plm_cudnn_convolution *convolution = &operation->convolution;
    convolution->direction = direction_of(operation->type);
    switch ((name - CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA) % OPERAND_COUNT) {
    case CONVOLUTION:
        read_numbers(value, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, convolution->padding);
        read_numbers(value, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, convolution->stride);
        read_numbers(value, CUDNN_ATTR_CONVOLUTION_DILATIONS, convolution->dilation);
        break;
    case FILTER:
        convolution->filter = read_tensor(value);
        break;
    case IMAGE:
        convolution->image = read_tensor(value);
        break;
    case OUTPUT:
        convolution->output = read_tensor(value);
        break;
    default: /* alpha, beta */
        break;
    }
}

static void take_knob(struct plm_cudnn_knobs *knobs, int type, int64_t value)
{
    if (type == CUDNN_KNOB_TYPE_TILE_SIZE)
        knobs->tile = value;
    else if (type == CUDNN_KNOB_TYPE_TILEK)
        knobs->depth = value;
    else if (type == CUDNN_KNOB_TYPE_WORKSPACE)
        knobs->no_workspace = value;
    else if (type == CUDNN_KNOB_TYPE_TILE_CGA_M)
        knobs->cluster_rows = value;
    else if (type == CUDNN_KNOB_TYPE_TILE_CGA_N)
        knobs->cluster_columns = value;
}

/* The library copies its choices into descriptors that the caller made. */
static struct plm_cudnn_knobs read_knobs(plm_cudnn_descriptor configuration)
{
    const struct plm_cudnn_real *real = plm__cudnn_real();
    struct plm_cudnn_knobs knobs = {-1, -1, -1, -1, -1};
    plm_cudnn_descriptor choices[KNOBS_MAX] = {NULL};
    int made = 0;
    while (made < KNOBS_MAX && !real->create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[made]))
        made++;
    int64_t count = 0;
    if (real->get(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  made, &count, choices))
        count = 0;
    for (int64_t i = 0; i < count && i < made; i++) {
        int type = -1;
        int64_t value = 0, got = 0;
        real->get(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got,
                  &type);
        real->get(choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &got, &value);
        take_knob(&knobs, type, value);
    }
    for (int i = 0; i < made; i++)
        real->destroy(choices[i]);
    return knobs;
}

static bool is_hopper(const struct plm_phantom_device *device)
{
    return device->capability >= HOPPER && device->capability < BLACKWELL;
}

int plm__cudnn_configure(struct plm_cudnn_entry *plan, const struct plm_cudnn_entry *configuration)
{
    const struct plm_phantom_device *device = plm__phantom_device();
    const struct plm_cudnn_convolution *convolution = &configuration->convolution;
    int64_t told = 0, count = 0;
    if (configuration->absent_engine) {
        plan->rank = 0;
        plan->workspace_bytes = plm__cudnn_absent_bytes(convolution, configuration->absent_engine,
                                                        device->multiprocessors);
        return CUDNN_STATUS_SUCCESS;
    }
    int status =
        plm__cudnn_real()->get(configuration->descriptor, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                               CUDNN_TYPE_INT64, 1, &count, &told);
    if (status)
        return status;
    plan->rank = configuration->position;
    if (convolution->direction && is_hopper(device)) {
        struct plm_cudnn_knobs knobs = read_knobs(configuration->descriptor);
        struct plm_cudnn_work work;
        bool known = plm__cudnn_work_of(convolution, &knobs, &work);
        plan->rank =
            plm__cudnn_rank(known ? &work : NULL, configuration->position, device->multiprocessors);
        plm__cudnn_move_split(convolution, &knobs, told, device->multiprocessors, &told);
    }
    plan->workspace_bytes =
        told > configuration->workspace_bytes ? told : configuration->workspace_bytes;
    return CUDNN_STATUS_SUCCESS;
}
