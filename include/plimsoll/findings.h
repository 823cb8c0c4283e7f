/* SPDX-License-Identifier: MIT */
/*
 * Findings: what the recorded memory of one device says, worked out from its trace and segments.
 *
 *   sites       who holds memory, by call site: the innermost line of the user's own program, with
 *               PyTorch's frames folded into it. Blocks without a stack are told apart by size
 *   leaks       sites that hold more after every step
 *   fragments   what is free, what of it could be given back, what one request could get, and
 *               which live blocks pin the rest
 *   spikes      short-lived blocks without which the peak would be lower
 *   waits       blocks that were freed and wait for another stream
 *   failures    the verdict on each request that found no memory
 *
 * All sizes are with rounding unless a name says asked: plm_replay_fill_taken (plimsoll/replay.h)
 * first gives the trace its true bytes. Without it they are as asked, and failures are not judged.
 *
 *     plm_replay_result replayed;
 *     PLM_TRY(plm_replay_fill_taken(snapshot, 0, &replayed));
 *     plm_findings *findings = NULL;
 *     plm_findings_options options = {.replayed = &replayed};
 *     PLM_TRY(plm_findings_create(&devices[0], &options, &findings));
 *     ... findings->failures[0].verdict ...
 *     plm_findings_destroy(findings);
 *
 * Thread-safe: what findings are made of is only read, and findings do not change.
 */
#ifndef PLIMSOLL_FINDINGS_H
#define PLIMSOLL_FINDINGS_H

#include <stdbool.h>

#include "plimsoll/memory_stats.h"
#include "plimsoll/replay.h"
#include "plimsoll/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call site; or, for blocks without a stack, one size at one place. */
typedef struct plm_call_site {
    uint32_t site;       /* plm_owner.op: "forward model.py:41"; 0: no stack */
    bool is_older;       /* blocks from before recording began, of which only the free is known */
    int32_t owner;       /* one of its owners, for a whole stack; PLM_TRACE_NO_OWNER */
    size_t each_bytes;   /* of its largest block */
    int64_t requests;    /* in all */
    int64_t peak_blocks; /* live at the peak */
    size_t peak_bytes;
    int64_t end_blocks; /* live at the end */
    size_t end_bytes;
} plm_call_site;

/* How steps were found. */
typedef enum plm_step_source {
    PLM_STEPS_NONE,
    PLM_STEPS_OPTIMIZER, /* ends of the optimizer's recorded steps */
    PLM_STEPS_PERIOD     /* requests that come back at even distances */
} plm_step_source;

enum {
    PLM_LEAK_STEPS_MIN = 8,  /* fewer steps prove nothing */
    PLM_LEAK_PER_MILLE = 1,  /* least growth, of the allocated peak */
    PLM_FAILURES_MAX = 16,   /* failed requests that are looked into */
    PLM_SPIKE_PER_MILLE = 50 /* least fall of the peak that makes a spike */
};

/* A site that holds more from step to step: in each quarter of the steps since it began. */
typedef struct plm_leak {
    int64_t place;       /* of the site, index into the findings' sites */
    size_t bytes_a_step; /* on average, since it began */
    size_t grown_bytes;
    int64_t since_step; /* counted from 0, the first step seen */
    int64_t since_time; /* the trace's */
    int64_t steps;      /* seen since */
} plm_leak;

/* A segment with free memory that cannot be given back. */
typedef struct plm_pin {
    uint64_t segment_address;
    size_t segment_bytes;
    size_t free_bytes;
    size_t largest_free_bytes;
    int64_t live_blocks;
    size_t live_bytes;
    int64_t event; /* alloc event of its oldest live block; -1 when the trace lacks it */
    size_t block_bytes;
    bool is_small;
} plm_pin;

/* Where the reserved bytes are at one instant. */
typedef struct plm_fragments {
    size_t reserved_bytes;
    size_t allocated_bytes;
    size_t active_bytes;
    size_t asked_bytes;
    size_t cached_bytes;       /* reserved - active */
    size_t releasable_bytes;   /* of it, what empty_cache could give back */
    size_t pinned_bytes;       /* of it, what live blocks hold back */
    size_t largest_free_bytes; /* the most that one request could get without new memory */
    plm_pin *pins;             /* most free bytes first */
    int64_t pin_count;
} plm_fragments;

/* A short-lived block that is live at the peak: it dies in the trace, within a quarter of a step,
 * or of the trace where steps are not known. */
typedef struct plm_spike {
    int64_t event; /* its alloc event */
    int64_t place; /* of its site */
    size_t bytes;
    size_t peak_without_bytes; /* the peak of the trace without this block */
    int64_t lived_ns;          /* 0 where times are not known */
} plm_spike;

/* Blocks of one stream that wait for another one. */
typedef struct plm_wait {
    uint64_t stream; /* PyTorch's handle of the stream that the blocks belong to */
    int64_t blocks;
    size_t bytes;
    int64_t place; /* site of the most bytes of them, -1 */
} plm_wait;

enum { PLM_REMEDY_TEXT = 256 };

/* One failed request. */
typedef struct plm_failure {
    int64_t event;
    int64_t time;
    uint32_t site;            /* plm_owner.op of who asked, 0 when not known */
    size_t asked_bytes;       /* rounded: what the block would take */
    size_t segment_bytes;     /* what was wanted from the driver for it */
    size_t device_free_bytes; /* what the driver still had */
    plm_fragments then;       /* after the cache was given back */
    size_t limit_least_bytes; /* the process could have this much: it had */
    size_t limit_most_bytes;  /* and not this much + 1: it was refused; SIZE_MAX: not known */
    bool limited;             /* the driver had the memory: a limit of the process refused */
    bool wants_capacity;      /* the verdict would be surer with the device's capacity */
    int64_t top_place;        /* site that held most at that moment, -1 */
    size_t top_bytes;
    int64_t top_blocks;
    plm_verdict verdict;
    char reason[PLM_REMEDY_TEXT]; /* the figures that decide */
    char remedy[PLM_REMEDY_TEXT]; /* what helps, as measured by replay; "" when nothing did */
} plm_failure;

typedef struct plm_findings_options {
    size_t capacity_bytes;             /* of the device; 0: not known */
    const plm_memory_record *record;   /* measured beside the snapshot; NULL */
    const plm_replay_result *replayed; /* the device's, by plm_replay_fill_taken; NULL: none */
} plm_findings_options;

typedef struct plm_findings {
    const plm_snapshot_device *device; /* borrowed */
    size_t capacity_bytes;
    plm_memory_record record;   /* zeros when there was none */
    plm_replay_result replayed; /* as recorded; is_replayed false: there is none */
    bool peaks_are_whole;       /* nothing before the history can have been higher, or the record
                                   says the peaks */
    size_t allocated_peak_bytes, reserved_peak_bytes; /* 0: not known */
    bool has_stacks;                                  /* some recorded request has one */
    int64_t peak_event;                               /* -1 without a history */
    plm_call_site *sites;                             /* most bytes at the peak first */
    int64_t site_count;
    int32_t *site_of_block; /* by block number */
    int64_t block_count;
    plm_step_source step_source;
    int64_t *steps; /* the event behind each step, rising */
    int64_t step_count;
    plm_leak *leaks; /* fastest first */
    int64_t leak_count;
    plm_fragments fragments; /* at the end */
    plm_spike *spikes;       /* largest fall of the peak first */
    int64_t spike_count;
    plm_wait *waits; /* most bytes first */
    int64_t wait_count;
    plm_failure *failures; /* the first PLM_FAILURES_MAX */
    int64_t failure_count;
    plm_verdict verdict; /* that of the first failure, or what matters most without one */
} plm_findings;

/* *findings = what a device says; owned by the caller, and borrows the device, which is only read.
 * A device made by hand has as many of everything as its counts say, and events name its blocks by
 * their index: this is not looked at. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_findings_create(const plm_snapshot_device *device,
                                            const plm_findings_options *options,
                                            plm_findings **findings);

/* Frees findings; NULL is allowed. */
void plm_findings_destroy(plm_findings *findings);

/* The rank that stands out among several. */
typedef struct plm_odd_rank {
    int64_t odd;       /* index of it, -1 when their peaks agree to 2 % */
    int64_t reference; /* index of the one that is nearest to the middle of the others */
    size_t odd_bytes, reference_bytes; /* their active peaks */
    int64_t place;                     /* site of the odd one that differs most, -1 */
    size_t site_bytes, site_reference_bytes;
    int64_t sites_larger, sites_smaller; /* of those that both have, by more than 5 % at the peak */
    double least_factor, most_factor;    /* of those on the larger side: odd / reference */
} plm_odd_rank;

/* Which of `count` findings, one a rank, is odd, and by what. Linear in their sites, cannot fail.
 */
plm_odd_rank plm_find_odd_rank(const plm_findings *const *ranks, int64_t count);

/* Writes a sentence that says the verdict with its main figure; returns `text`. */
enum { PLM_SUMMARY_TEXT = 512 };
const char *plm_findings_summary(const plm_findings *findings, char text[PLM_SUMMARY_TEXT]);

/* Writes a name for a site: its line, or what is known instead; returns `text`. */
enum { PLM_CALL_SITE_TEXT = 160 };
const char *plm_call_site_text(const plm_findings *findings, int64_t place,
                               char text[PLM_CALL_SITE_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
