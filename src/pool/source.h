/* SPDX-License-Identifier: MIT */
/*
 * The memory source: where a pool gets address space and the memory behind it. Devices implement
 * this table; so do the abstract address space (pool/space.h) and the fault wrapper of the tests.
 *
 * Address space and memory are taken apart. `reserve` gives a range of addresses with nothing
 * behind it; `commit` puts memory behind a part of it; `decommit` takes that memory away; `release`
 * ends the range. A plain segment is a reserve followed at once by a commit of the whole.
 *
 * Contract of every implementation:
 *  - ranges do not overlap; a range's address is a multiple of page_bytes and is never 0;
 *  - commit and decommit act on whole pages inside one range, or on the whole range. Committing
 * what is committed and decommitting what is not are broken contracts of the caller;
 *  - each call happens wholly or not at all. A commit that finds no memory is
 *    PLM_ERROR_DEVICE_MEMORY with the out-of-memory record filled; any other status means that the
 *    source itself failed, and pools pass it on without trying again;
 *  - release needs a range with nothing committed, named by the address that reserve gave;
 *  - fence returns when all work given to the device so far, on every stream, is done. Pools call
 *    it before they decommit what a stream may still be using.
 * One thread at a time.
 */
#ifndef PLM_POOL_SOURCE_H
#define PLM_POOL_SOURCE_H

#include "base/status.h"

typedef struct plm_source plm_source;

typedef struct plm_source_table {
    plm_status (*reserve)(plm_source *source, size_t bytes, uint64_t *address);
    plm_status (*commit)(plm_source *source, uint64_t address, size_t bytes);
    plm_status (*decommit)(plm_source *source, uint64_t address, size_t bytes);
    plm_status (*release)(plm_source *source, uint64_t address, size_t bytes);
    plm_status (*fence)(plm_source *source);
} plm_source_table;

/* The head of every implementation. */
struct plm_source {
    const plm_source_table *table;
    size_t page_bytes;  /* unit of commit, a power of two, at most 2 MiB */
    size_t total_bytes; /* memory of the device, used or not; fractions are of this */
};

PLM_MUST_USE static inline plm_status plm__source_reserve(plm_source *source, size_t bytes,
                                                          uint64_t *address)
{
    return source->table->reserve(source, bytes, address);
}

PLM_MUST_USE static inline plm_status plm__source_commit(plm_source *source, uint64_t address,
                                                         size_t bytes)
{
    return source->table->commit(source, address, bytes);
}

PLM_MUST_USE static inline plm_status plm__source_decommit(plm_source *source, uint64_t address,
                                                           size_t bytes)
{
    return source->table->decommit(source, address, bytes);
}

PLM_MUST_USE static inline plm_status plm__source_release(plm_source *source, uint64_t address,
                                                          size_t bytes)
{
    return source->table->release(source, address, bytes);
}

PLM_MUST_USE static inline plm_status plm__source_fence(plm_source *source)
{
    return source->table->fence(source);
}

#endif
