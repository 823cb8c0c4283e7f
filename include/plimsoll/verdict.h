/* SPDX-License-Identifier: MIT */
/*
 * Verdicts: the causes that a diagnosis can come to. A snapshot and a message are judged by this
 * one list, and programs that read their JSON meet the same word for the same cause.
 */
#ifndef PLIMSOLL_VERDICT_H
#define PLIMSOLL_VERDICT_H

#ifdef __cplusplus
extern "C" {
#endif

/* One row a verdict: name, word in JSON, title, what it means. */
#define PLM_VERDICT_MAP(ROW)                                                                       \
    ROW(NONE, "none", "nothing stands out", "no request failed and nothing grows")                 \
    ROW(CAPACITY, "capacity", "the run needs more than it can have",                               \
        "live tensors need more than the process can have")                                        \
    ROW(FRAGMENTATION, "fragmentation", "fragmentation", "enough is free, but in pieces")          \
    ROW(LIMIT, "limit", "a limit set on this process",                                             \
        "a limit below the device's capacity was set for the process")                             \
    ROW(OTHER_PROCESS, "other_process", "other processes on the device",                           \
        "other processes hold the memory that is missing")                                         \
    ROW(TOO_LARGE, "too_large", "one request larger than the device",                              \
        "one request is larger than the device")                                                   \
    ROW(LIBRARY, "library", "memory wanted outside PyTorch's allocator",                           \
        "the driver or a library wanted memory outside PyTorch's allocator")                       \
    ROW(HOST, "host", "the host's memory, not the GPU's", "the host ran out of memory")            \
    ROW(LEAK, "leak", "leak", "one line of the program holds more after every step")               \
    ROW(SPIKE, "spike", "spike", "a short-lived block makes the peak")                             \
    ROW(WAITS, "waits", "blocks that wait for a stream",                                           \
        "freed blocks cannot be used again before another stream is done with them")               \
    ROW(NO_HISTORY, "no_history", "no history was recorded", "only the final state is known")      \
    ROW(UNKNOWN, "unknown", "cannot be told", "what was recorded does not say enough")

typedef enum plm_verdict {
#define PLM_VERDICT_ROW(name, word, title, meaning) PLM_VERDICT_##name,
    PLM_VERDICT_MAP(PLM_VERDICT_ROW)
#undef PLM_VERDICT_ROW
        PLM_VERDICT_COUNT
} plm_verdict;

/* "too_large"; its title, "one request larger than the device"; what it means, as the end of a
 * sentence. Those of UNKNOWN for a number outside the list. Static; any thread. */
const char *plm_verdict_word(plm_verdict verdict);
const char *plm_verdict_title(plm_verdict verdict);
const char *plm_verdict_meaning(plm_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
