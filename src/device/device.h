/* SPDX-License-Identifier: MIT */
/*
 * The device contract: one small table of functions. The planner asks it for workspaces, the
 * executor reserves one arena from it, prepares every operation once and launches them; nothing is
 * allocated after that. The dry run, a fault-injecting wrapper and a GPU are other tables.
 *
 * Contract
 * - A launch touches its operands and its workspace and nothing else.
 * - `reserve` never hands out more than the cap in all, counts what it hands out, and has the pages
 *   ready to use: a write never fails later. The region begins at a multiple of the granule; on the
 * CPU the first byte past its end lies on an inaccessible page. Its content is undefined, except
 * the last granule, which holds PLM_ARENA_PATTERN.
 * - `workspace` is a pure function of the operation, its shapes and the device's profile.
 * - One thread drives a device.
 * - What is enqueued on one queue runs in order. Queues run side by side: one waits for another
 * only where a `wait` for a signal says so. A function that is told no queue is of
 * PLM_QUEUE_COMPUTE.
 * - A kind that hands out no memory leaves out what would need some.
 */
#ifndef PLM_DEVICE_DEVICE_H
#define PLM_DEVICE_DEVICE_H

#include "base/host.h"
#include "graph/op.h"
#include "plimsoll/device.h"
#include "plimsoll/gpu.h"

enum {
    PLM_RANK_MAX = 4,
    PLM_ARENA_PATTERN = 0xA5 /* every byte of the last granule before the run */
};

/* A tensor as a kernel sees it. Elements are counted in the dtype. */
typedef struct plm_operand {
    void *data; /* NULL: absent, or not yet placed (workspace and prepare) */
    plm_dtype dtype;
    int32_t rank;
    int64_t shape[PLM_RANK_MAX];
    int64_t stride[PLM_RANK_MAX]; /* in elements */
} plm_operand;

/* What the device has handed out, counted where it hands it out. Bytes. */
typedef struct plm_device_usage {
    size_t live_bytes;
    size_t peak_bytes; /* largest live_bytes so far */
    size_t cap_bytes;  /* 0: no cap */
} plm_device_usage;

/* One operation ready to run. */
typedef struct plm_launch {
    plm_op_kind kind;
    plm_op_attr attr;
    plm_operand in[PLM_OP_INPUTS_MAX];
    plm_operand out[PLM_OP_OUTPUTS_MAX];
    plm_operand effect[PLM_OP_EFFECTS_MAX];
    void *workspace; /* aligned to the granule, NULL when workspace_bytes is 0 */
    size_t workspace_bytes;
    plm_step_record *step;
} plm_launch;

typedef struct plm_device_table {
    const char *kind; /* "cpu", "cuda" */

    void (*destroy)(plm_device *device);

    /* *region = `bytes` > 0 bytes as the contract says. PLM_ERROR_DEVICE_MEMORY with its record,
     * nothing taken. */
    plm_status (*reserve)(plm_device *device, size_t bytes, void **region);
    /* Waits for what is enqueued. */
    void (*release)(plm_device *device, void *region, size_t bytes);

    /* *bytes = workspace that the kernel for this launch wants; data pointers are not looked at. */
    plm_status (*workspace)(plm_device *device, const plm_launch *launch, size_t *bytes);

    /*
     * Makes ready what launching needs (a library's descriptors), once for each operation of a
     * plan, with every pointer in place. *prepared may be NULL; given back to `forget` at the end.
     */
    plm_status (*prepare)(plm_device *device, const plm_launch *launch, void **prepared);
    void (*forget)(plm_device *device, void *prepared);

    /* Runs or enqueues the operation. Allocates nothing. */
    plm_status (*launch)(plm_device *device, const plm_launch *launch, void *prepared);

    /* Between host and device memory; enqueued in order, host memory is free for reuse on return.
     */
    plm_status (*copy_in)(plm_device *device, void *to, const void *from, size_t bytes);
    plm_status (*copy_out)(plm_device *device, void *to, const void *from, size_t bytes);
    plm_status (*fill)(plm_device *device, void *to, uint8_t value, size_t bytes);

    /*
     * Host memory that copies below may name: pinned, where that makes them faster. No part of the
     * cap or the counts. Given back only when nothing that is enqueued names it, or when the region
     * that such copies also name has been released.
     */
    plm_status (*reserve_host)(plm_device *device, size_t bytes, void **memory);
    void (*release_host)(plm_device *device, void *memory);

    /*
     * Enqueues a copy between the device's memory and itself, or memory of `reserve_host`: it is
     * read and written at any time from now until a signal behind it is given.
     */
    plm_status (*copy)(plm_device *device, plm_queue queue, void *to, const void *from,
                       size_t bytes);

    /*
     * A signal that was enqueued is given when everything before it on its queue is done. `wait`
     * lets nothing that is enqueued behind it begin until the signal was given that was enqueued
     * last before the `wait`; `await` holds the caller up likewise. A signal that was never
     * enqueued holds nobody up.
     */
    plm_status (*create_signal)(plm_device *device, void **signal);
    void (*destroy_signal)(plm_device *device, void *signal);
    plm_status (*signal)(plm_device *device, plm_queue queue, void *signal);
    plm_status (*wait)(plm_device *device, plm_queue queue, void *signal);
    plm_status (*await)(plm_device *device, void *signal);

    /*
     * What is launched between the two is recorded and does not run; `run_graph` enqueues all of it
     * at once, as often as wanted, with the same operands. NULL where nothing would be gained.
     * Where something fails in between, `graph` is NULL: the recording is dropped, which never
     * fails.
     */
    plm_status (*begin_graph)(plm_device *device);
    plm_status (*end_graph)(plm_device *device, void **graph);
    plm_status (*run_graph)(plm_device *device, void *graph);
    void (*drop_graph)(plm_device *device, void *graph);

    /* Waits for everything enqueued so far, on every queue. */
    plm_status (*fence)(plm_device *device);

    /*
     * Whether launches of this kind run code of this program's build on host memory, so that the
     * address sanitizer sees what they touch. NULL: none do.
     */
    bool (*is_instrumented)(plm_op_kind kind);

    /* Bytes that the device and its libraries hold beside what they hand out: a declared bound,
     * part of every peak. */
    size_t (*overhead_bytes)(plm_device *device);

    /* *bytes = what this process holds of the device's memory by the driver's word, context and
     * libraries included. PLM_ERROR_UNSUPPORTED where the driver does not say. NULL: none does. */
    plm_status (*process_bytes)(plm_device *device, size_t *bytes);

    /* *bytes = what could be handed out now, by the system's or the driver's word. */
    plm_status (*available_bytes)(plm_device *device, size_t *bytes);

    /* See plm_device_be_deterministic. NULL: the device always is. */
    void (*be_deterministic)(plm_device *device, bool wanted);

    /* Whether PLM_QUEUE_COPY runs beside PLM_QUEUE_COMPUTE. Else the two are one queue, and nothing
     * is gained by bringing inputs ahead. */
    bool has_copy_queue;

    /* A table of tokens has a multiple of so many rows, which are columns of the logits: products
     * of other widths are slow. 0 and 1: any number will do. */
    int64_t row_multiple;

    /* Whether there are instructions that multiply matrices of this type. */
    bool (*has_dtype)(const plm_device *device, plm_dtype dtype);
} plm_device_table;

/* The head of every device; a device kind's own struct begins with it. */
struct plm_device {
    const plm_device_table *table;
    plm_device_usage usage;                   /* kept by reserve and release */
    int32_t threads;                          /* CPU threads that kernels use */
    char name[PLM_GPU_NAME_TEXT];             /* as the driver says it, "NVIDIA H200"; "": a CPU */
    const struct plm_device_profile *profile; /* its rates, borrowed; NULL: not known */
};

/*
 * From here on the device hands out at most `cap_bytes` (0: no cap), and its high water is counted
 * anew. Returns the cap that it had.
 */
size_t plm__device_limit(plm_device *device, size_t cap_bytes);

/* Whether the device has instructions that multiply matrices of this type. Where it has none, or
 * slow ones, products are made in fp32 of converted blocks: right all the same. */
bool plm__device_has(const plm_device *device, plm_dtype dtype);

#endif
