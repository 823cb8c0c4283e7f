/* SPDX-License-Identifier: MIT */
/*
 * A trip wire for tests: counts calls and says which of them is to fail. What can fail in the
 * outside world (host memory, files, a device) asks its wire before each call. Thread-safe.
 */
#ifndef PLM_BASE_TRIP_H
#define PLM_BASE_TRIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero: never trips. */
typedef struct plm_trip {
    atomic_llong left; /* calls until one fails; 0: never, below 0: it has failed */
    atomic_bool persistent;
    atomic_bool fired;
} plm_trip;

/*
 * Lets the n-th call from now fail (n = 1 is the next); `persistent` lets every later one fail too.
 * n = 0 switches failing off. Returns whether the last setting had fired.
 */
static inline bool plm__trip_set(plm_trip *trip, int64_t n, bool persistent)
{
    bool fired = atomic_exchange(&trip->fired, false);
    atomic_store(&trip->persistent, persistent);
    atomic_store(&trip->left, n);
    return fired;
}

/* Whether this call is to fail. */
static inline bool plm__trip_hit(plm_trip *trip)
{
    if (atomic_load(&trip->left) == 0)
        return false;
    if (atomic_load(&trip->fired))
        return atomic_load(&trip->persistent);
    if (atomic_fetch_sub(&trip->left, 1) != 1)
        return false;
    atomic_store(&trip->left, -1); /* armed no more, but not off: keeps a persistent one failing */
    atomic_store(&trip->fired, true);
    return true;
}

#endif
