/* SPDX-License-Identifier: MIT */
/*
 * NCCL. Every rank is a process of its own and none speaks to another: collectives do nothing with
 * large data, and with small data every rank is taken to hold what this one holds, so that scripts
 * agree on sizes and flags. A sum over the ranks is then so many times the value. A communicator
 * knows its size and rank; of a split one only NCCL on all ranks together would know them.
 */
#include "phantom/copy.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"

#include <string.h>

enum { NCCL_OK = 0, NCCL_INVALID_ARGUMENT = 4, ID_BYTES = 128, MAX_COMMUNICATORS = 1 << 16 };

struct communicator {
    int ranks; /* 0: not known */
    int rank;
    int device;
};

struct unique_id {
    char bytes[ID_BYTES]; /* passed by value */
};

static struct communicator *communicators;
static int communicator_count;

static struct communicator *make(int ranks, int rank)
{
    plm__phantom_lock();
    if (!communicators)
        communicators = plm__phantom_table(MAX_COMMUNICATORS * sizeof *communicators);
    if (communicator_count == MAX_COMMUNICATORS)
        plm__phantom_stop("wanted at most %d communicators, found more", MAX_COMMUNICATORS);
    struct communicator *made = &communicators[communicator_count++];
    *made = (struct communicator){.ranks = ranks, .rank = rank, .device = plm__phantom_current()};
    plm__phantom_unlock();
    return made;
}

PLM_STANDIN(int, ncclGetVersion, (int *version))
{
    enum { OLDEST = 22005 }; /* what PyTorch 2.4 brings */
    int (*ask)(int *);
    *(void **)(void *)&ask = plm__phantom_real("libnccl.so.2", "ncclGetVersion");
    if (!ask || ask(version))
        *version = OLDEST;
    return NCCL_OK;
}

PLM_STANDIN(int, ncclGetUniqueId, (struct unique_id * id))
{
    memset(id, 7, sizeof *id);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommInitRank, (void **made, int ranks, struct unique_id id, int rank))
{
    *made = make(ranks, rank);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommInitRankConfig,
            (void **made, int ranks, struct unique_id id, int rank, void *config))
{
    *made = make(ranks, rank);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommInitRankScalable,
            (void **made, int ranks, int rank, int id_count, void *ids, void *config))
{
    *made = make(ranks, rank);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommInitAll, (void **made, int ranks, const int *devices))
{
    for (int i = 0; i < ranks; i++)
        made[i] = make(ranks, i);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommSplit, (void *whole, int color, int key, void **made, void *config))
{
    *made = color < 0 ? NULL : make(0, 0);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommShrink,
            (const struct communicator *whole, const int *excluded, int excluded_count, void **made,
             void *config, int flags))
{
    int below = 0;
    for (int i = 0; i < excluded_count; i++)
        below += excluded[i] < whole->rank;
    *made = make(whole->ranks ? whole->ranks - excluded_count : 0, whole->rank - below);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommCount, (const struct communicator *communicator, int *ranks))
{
    *ranks = communicator->ranks;
    return communicator->ranks ? NCCL_OK : NCCL_INVALID_ARGUMENT;
}

PLM_STANDIN(int, ncclCommUserRank, (const struct communicator *communicator, int *rank))
{
    *rank = communicator->rank;
    return communicator->ranks ? NCCL_OK : NCCL_INVALID_ARGUMENT;
}

PLM_STANDIN(int, ncclCommCuDevice, (const struct communicator *communicator, int *device))
{
    *device = communicator->device;
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommGetAsyncError, (void *communicator, int *status))
{
    *status = NCCL_OK;
    return NCCL_OK;
}

PLM_STANDIN(const char *, ncclGetErrorString, (int status))
{
    return status ? "not answered by plimsoll's stand-in for NCCL" : "no error";
}

PLM_STANDIN(const char *, ncclGetLastError, (void *communicator))
{
    return "";
}

PLM_STANDIN(int, ncclCommRegister,
            (void *communicator, void *address, size_t bytes, void **registered))
{
    *registered = plm__phantom_handle();
    return NCCL_OK;
}

PLM_STANDIN(int, ncclCommWindowRegister,
            (void *communicator, void *address, size_t bytes, void **window, int flags))
{
    *window = plm__phantom_handle();
    return NCCL_OK;
}

PLM_STANDIN(int, ncclRedOpCreatePreMulSum,
            (int *operation, void *factor, int type, int residence, void *communicator))
{
    enum { FIRST_OWN = 5 }; /* after sum, product, max, min and average */
    *operation = FIRST_OWN;
    return NCCL_OK;
}

PLM_STANDIN(int, ncclMemAlloc, (void **address, size_t bytes))
{
    return plm__memory_take(plm__phantom_current(), bytes, address) ? 1 : NCCL_OK;
}

PLM_STANDIN(int, ncclMemFree, (void *address))
{
    return plm__memory_give(address) ? NCCL_INVALID_ARGUMENT : NCCL_OK;
}

enum type { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64 };

/* Bytes of an element, by ncclDataType_t: after FLOAT64 come bfloat16 and two of 8 bits. */
static size_t element_bytes(int type)
{
    static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 1;
}

/* Turns one rank's values into the sum over `ranks` equal ones. 16-bit floats stay: nothing is
 * decided on them. */
static void sum_over_ranks(void *values, size_t count, int type, int ranks)
{
    for (size_t i = 0; i < count; i++)
        if (type == INT8 || type == UINT8)
            ((uint8_t *)values)[i] = (uint8_t)(((uint8_t *)values)[i] * ranks);
        else if (type == INT32 || type == UINT32)
            ((uint32_t *)values)[i] *= (uint32_t)ranks;
        else if (type == INT64 || type == UINT64)
            ((uint64_t *)values)[i] *= (uint64_t)ranks;
        else if (type == FLOAT32)
            ((float *)values)[i] *= (float)ranks;
        else if (type == FLOAT64)
            ((double *)values)[i] *= (double)ranks;
}

/* Copies and, for a sum, multiplies, where the data is small enough to be real. */
static int reduce(const void *from, void *to, size_t count, int type, int operation,
                  const struct communicator *communicator)
{
    enum { SUM = 0 };
    size_t bytes = count * element_bytes(type);
    if (bytes > PLM_COPY_MADE_BYTES || plm__copy(to, from, bytes))
        return NCCL_OK;
    if (operation == SUM && communicator->ranks > 1)
        sum_over_ranks(to, count, type, communicator->ranks);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclAllReduce,
            (const void *from, void *to, size_t count, int type, int operation,
             const struct communicator *communicator, void *stream))
{
    return reduce(from, to, count, type, operation, communicator);
}

PLM_STANDIN(int, ncclReduce,
            (const void *from, void *to, size_t count, int type, int operation, int root,
             const struct communicator *communicator, void *stream))
{
    bool receives = communicator->rank == root;
    return receives ? reduce(from, to, count, type, operation, communicator) : NCCL_OK;
}

PLM_STANDIN(int, ncclReduceScatter,
            (const char *from, void *to, size_t count, int type, int operation,
             const struct communicator *communicator, void *stream))
{
    size_t bytes = count * element_bytes(type);
    return reduce(from + (size_t)communicator->rank * bytes, to, count, type, operation,
                  communicator);
}

PLM_STANDIN(int, ncclBroadcast,
            (const void *from, void *to, size_t count, int type, int root, void *communicator,
             void *stream))
{
    size_t bytes = count * element_bytes(type);
    if (bytes <= PLM_COPY_MADE_BYTES)
        plm__copy(to, from, bytes);
    return NCCL_OK;
}

/* The same small data at every rank's place. */
static int repeat(const void *from, char *to, size_t bytes, int ranks)
{
    if (bytes <= PLM_COPY_MADE_BYTES)
        for (int i = 0; i < ranks; i++)
            plm__copy(to + (size_t)i * bytes, from, bytes);
    return NCCL_OK;
}

PLM_STANDIN(int, ncclAllGather,
            (const void *from, char *to, size_t count, int type,
             const struct communicator *communicator, void *stream))
{
    return repeat(from, to, count * element_bytes(type), communicator->ranks);
}

PLM_STANDIN(int, ncclGather,
            (const void *from, char *to, size_t count, int type, int root,
             const struct communicator *communicator, void *stream))
{
    int ranks = communicator->rank == root ? communicator->ranks : 0;
    return repeat(from, to, count * element_bytes(type), ranks);
}

/* Every rank sends this rank what this rank would send itself. */
PLM_STANDIN(int, ncclAlltoAll,
            (const char *from, char *to, size_t count, int type,
             const struct communicator *communicator, void *stream))
{
    size_t bytes = count * element_bytes(type);
    return repeat(from + (size_t)communicator->rank * bytes, to, bytes, communicator->ranks);
}
