/* SPDX-License-Identifier: MIT */
/*
 * What serving a model takes on one GPU, from its config alone: weights as they are stored, the
 * cache by architecture and type, activations of a chunk of prompts; and what fits.
 *
 *     plm_serve_job job = plm_serve_job_default();
 *     plm_serve_bill bill;
 *     job.sequence = 8192;
 *     job.budget_bytes = (size_t)24 << 30;
 *     if (plm_serve_bill_make(&config, &job, &bill) == PLM_OK)
 *         ... bill.weights_bytes + bill.cache_bytes, bill.fits_sequences ...
 *
 * Exact: weights and caches, to the byte. From above: activations, for a server that computes one
 * layer after the other, without a copy of attention's scores. Pure functions; thread-safe.
 */
#ifndef PLIMSOLL_SERVE_BILL_H
#define PLIMSOLL_SERVE_BILL_H

#include "plimsoll/config.h"
#include "plimsoll/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types that weights and caches are stored in. One row a type: name, text, elements and bytes of a
 * block. q8_0 and q4_0 are llama.cpp's, each block with a scale of 16 bits. */
#define PLM_STORED_MAP(ROW)                                                                        \
    ROW(AS_FILE, "file", 1, 0) /* as the checkpoint has them */                                    \
    ROW(F32, "fp32", 1, 4)                                                                         \
    ROW(BF16, "bf16", 1, 2)                                                                        \
    ROW(F16, "fp16", 1, 2)                                                                         \
    ROW(FP8, "fp8", 1, 1)                                                                          \
    ROW(Q8_0, "q8_0", 32, 34)                                                                      \
    ROW(Q4_0, "q4_0", 32, 18)                                                                      \
    ROW(NF4, "nf4", 64, 36) /* bitsandbytes: half a byte, and an fp32 scale; weights alone */

typedef enum plm_stored {
#define PLM_STORED_ROW(name, text, elements, bytes) PLM_STORED_##name,
    PLM_STORED_MAP(PLM_STORED_ROW)
#undef PLM_STORED_ROW
        PLM_STORED_COUNT
} plm_stored;

/* "bf16", "q8_0", ...; static. */
const char *plm_stored_text(plm_stored type);

typedef struct plm_serve_job {
    int64_t sequence; /* tokens of each sequence, prompt and answer */
    int64_t batch;    /* sequences at once */
    plm_stored weights;
    plm_stored keys, values; /* of the cache: not AS_FILE, not NF4 */
    int64_t parallel;        /* GPUs that share each layer; divides the heads */
    int64_t prefill;         /* tokens that are computed at once, at most */
    int64_t page;            /* tokens that a cache grows by; 1: each by itself */
    bool caches_all_tokens;  /* of sliding layers too, as servers without windows */
    size_t budget_bytes;     /* on each GPU; 0: none, and nothing is said to fit */
    size_t overhead_bytes;   /* context and libraries, within the budget */
} plm_serve_job;

/* One sequence of 4096 tokens, weights as in the file, a cache of bf16, one GPU, chunks of 2048. */
plm_serve_job plm_serve_job_default(void);

/* Bytes are of one GPU. */
typedef struct plm_serve_bill {
    plm_serve_job job;
    plm_config_counts counts;
    int64_t full_layers, sliding_layers, linear_layers;
    int64_t cached_elements; /* of a token and attention layer, all GPUs' */
    size_t weights_bytes;
    size_t cache_bytes_per_token;    /* while no window is full */
    size_t cache_bytes_per_sequence; /* of job.sequence tokens, without state */
    size_t cache_bytes;              /* of job.batch such */
    size_t state_bytes;              /* of linear attention: of job.batch sequences */
    size_t activations_bytes;
    size_t overhead_bytes;
    size_t total_bytes;
    bool fits;              /* within the budget; true without one */
    int64_t fits_tokens;    /* the most that each of job.batch sequences can have; -1: no budget */
    int64_t fits_sequences; /* how many of job.sequence tokens fit at once; -1 likewise */
    size_t dynamic_cache_bytes; /* what transformers' DynamicCache holds of job.batch sequences,
                                   state too: sliding layers keep a token less than the window */
} plm_serve_bill;

/*
 * *bill = what the job takes. PLM_ERROR_ARGUMENT for a job out of range: GPUs that do not divide
 * the heads, a type that a cache or this checkpoint cannot have, a model that tells no tokens; for
 * sizes beyond 2^62 bytes PLM_ERROR_OVERFLOW.
 */
PLM_MUST_USE plm_status plm_serve_bill_make(const plm_config *config, const plm_serve_job *job,
                                            plm_serve_bill *bill);

/* A bill with what it is of, for a report; texts are borrowed. */
typedef struct plm_serve_entry {
    const plm_config *config;
    const plm_serve_bill *bill;
    const char *target;  /* the device's name; NULL: none */
    size_t memory_bytes; /* that it has; 0: not known */
} plm_serve_entry;

/*
 * *text = the bills as a page: one in full, several as one table. Owned by the caller, freed with
 * plm_free. PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_report_serve_text(const plm_serve_entry *entries, int64_t count,
                                              plm_report_style style, char **text);

/* *line = the same as one line of JSON: an object, of several {"bills": [...]}. As above. */
PLM_MUST_USE plm_status plm_report_serve_json(const plm_serve_entry *entries, int64_t count,
                                              char **line);

#ifdef __cplusplus
}
#endif
#endif
