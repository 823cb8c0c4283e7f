/* SPDX-License-Identifier: MIT */
/*
 * A device for tests: it wraps another, counts its calls and lets the n-th of a kind fail, once or
 * for good. One plm_fault counts over any number of devices, so that a program that opens several
 * is swept as one. It also counts what is handed out, so that a test sees what was not given back.
 */
#ifndef PLM_DEVICE_FAULT_FAULT_H
#define PLM_DEVICE_FAULT_FAULT_H

#include "base/trip.h"
#include "device/device.h"

/* One row a call that can fail: name, text. */
#define PLM_FAULT_MAP(ROW)                                                                         \
    ROW(RESERVE, "reserve")                                                                        \
    ROW(WORKSPACE, "workspace")                                                                    \
    ROW(PREPARE, "prepare")                                                                        \
    ROW(LAUNCH, "launch")                                                                          \
    ROW(COPY_IN, "copy_in")                                                                        \
    ROW(COPY_OUT, "copy_out")                                                                      \
    ROW(FILL, "fill")                                                                              \
    ROW(RESERVE_HOST, "reserve_host")                                                              \
    ROW(COPY, "copy")                                                                              \
    ROW(CREATE_SIGNAL, "create_signal")                                                            \
    ROW(SIGNAL, "signal")                                                                          \
    ROW(WAIT, "wait")                                                                              \
    ROW(AWAIT, "await")                                                                            \
    ROW(FENCE, "fence")

typedef enum plm_fault_call {
#define PLM_FAULT_ROW(name, text) PLM_FAULT_##name,
    PLM_FAULT_MAP(PLM_FAULT_ROW)
#undef PLM_FAULT_ROW
        PLM_FAULT_COUNT,
    PLM_FAULT_ANY = PLM_FAULT_COUNT
} plm_fault_call;

/* "reserve", "fence", ..., "any"; static. */
const char *plm__fault_text(plm_fault_call call);

/* What fails, and what was counted. All zero: nothing fails. */
typedef struct plm_fault {
    plm_trip trip;
    plm_fault_call kind; /* that the wire counts */
    size_t left_bytes;   /* what the record of a refused reservation says is free */
    int64_t calls[PLM_FAULT_COUNT];
    int64_t devices;  /* open */
    int64_t regions;  /* reserved and not released, of the host too */
    int64_t signals;  /* made and not destroyed */
    int64_t prepared; /* and not forgotten */
} plm_fault;

/* Lets the n-th call of this kind from now fail; as plm__trip_set. */
bool plm__fault_at(plm_fault *fault, plm_fault_call kind, int64_t n, bool persistent);

/*
 * *device = `inner`, which it takes, behind `fault`, which is borrowed. A call that fails does not
 * reach the inner device. PLM_ERROR_HOST_MEMORY: `inner` is still the caller's.
 */
PLM_MUST_USE plm_status plm__device_create_fault(plm_device *inner, plm_fault *fault,
                                                 plm_device **device);

#endif
