/* SPDX-License-Identifier: MIT */
/*
 * What the tests of pools share: a pool over an abstract address space, its events written down,
 * and steps that check the whole pool after each.
 */
#ifndef PLM_TEST_POOL_KIT_H
#define PLM_TEST_POOL_KIT_H

#include "base/philox.h"
#include "pool/pool.h"
#include "pool/space.h"
#include "unit/test.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

enum { KIT_EVENTS = 256 };

typedef struct pool_kit {
    plm_space space;
    plm_pool *pool;
    plm_pool_event events[KIT_EVENTS]; /* the first so many since kit_forget */
    int64_t event_count;
} pool_kit;

static inline void kit_write_down(void *context, const plm_pool_event *event)
{
    pool_kit *kit = context;
    if (kit->event_count < KIT_EVENTS)
        kit->events[kit->event_count] = *event;
    kit->event_count++;
}

static inline void kit_begin(pool_kit *kit, plm_pool_policy policy, size_t capacity,
                             const plm_pool_settings *settings)
{
    memset(kit, 0, sizeof *kit);
    plm__space_init(&kit->space, capacity);
    assert_ok(plm__pool_create(policy, &kit->space.source, settings, &kit->pool));
    plm__pool_listen(kit->pool, kit_write_down, kit);
}

/* The pool is whole, and agrees with the space about what is reserved. */
static inline void kit_check_at(pool_kit *kit, const char *file, int line)
{
    if (!plm__pool_is_valid(kit->pool)) {
        plm_error error;
        plm_error_get(&error);
        print_error("%s\n", error.message);
        _fail(file, line);
    }
    _assert_int_equal(plm__pool_sum(kit->pool).reserved_bytes, kit->space.committed_bytes, file,
                      line);
}

#define kit_check(kit) kit_check_at((kit), __FILE__, __LINE__)

static inline void kit_end(pool_kit *kit)
{
    kit_check(kit);
    plm__pool_destroy(kit->pool);
    assert_int_equal(kit->space.committed_bytes, 0);
    assert_int_equal(kit->space.reserved.count, 0);
    plm__space_fini(&kit->space);
}

static inline plm_pool_grant kit_grant_at(pool_kit *kit, const plm_pool_request *request,
                                          const char *file, int line)
{
    plm_pool_grant grant = {0};
    assert_ok_at(plm__pool_alloc(kit->pool, request, &grant), file, line);
    kit_check_at(kit, file, line);
    return grant;
}

static inline uint64_t kit_take_at(pool_kit *kit, size_t bytes, uint64_t stream, const char *file,
                                   int line)
{
    return kit_grant_at(kit, &(plm_pool_request){.bytes = bytes, .stream = stream}, file, line)
        .address;
}

/* Allocates and checks; the address. */
#define kit_take_on(kit, bytes, stream) kit_take_at((kit), (bytes), (stream), __FILE__, __LINE__)
#define kit_take(kit, bytes)            kit_take_on(kit, bytes, 0)
#define kit_grant(kit, ...)             kit_grant_at((kit), (__VA_ARGS__), __FILE__, __LINE__)

#define kit_give(kit, address)                                                                     \
    do {                                                                                           \
        assert_ok(plm__pool_free((kit)->pool, (address), NULL));                                   \
        kit_check(kit);                                                                            \
    } while (0)

#define kit_refuse(kit, ...)                                                                       \
    do {                                                                                           \
        plm_pool_grant untouched_ = {7, 7};                                                        \
        assert_int_equal(plm__pool_alloc((kit)->pool, (__VA_ARGS__), &untouched_),                 \
                         PLM_ERROR_DEVICE_MEMORY);                                                 \
        assert_int_equal(untouched_.address, 7);                                                   \
        kit_check(kit);                                                                            \
    } while (0)

static inline size_t kit_reserved(const pool_kit *kit)
{
    return plm__pool_sum(kit->pool).reserved_bytes;
}

static inline int64_t kit_stat(const pool_kit *kit, plm_pool_stat_family family)
{
    return plm__pool_statistics(kit->pool)->of[family][PLM_POOL_ALL].current;
}

static inline void kit_forget(pool_kit *kit)
{
    kit->event_count = 0;
}

/* The events since the last kit_forget are exactly of these kinds; the list ends with
 * PLM_EVENT_COUNT. */
static inline void kit_expect_at(const pool_kit *kit, const int *kinds, const char *file, int line)
{
    int64_t count = 0;
    while (kinds[count] != PLM_EVENT_COUNT) {
        if (count >= kit->event_count || (int)kit->events[count].kind != kinds[count]) {
            print_error("event %lld is not %s\n", (long long)count,
                        plm_event_text((plm_event_kind)kinds[count]));
            _fail(file, line);
        }
        count++;
    }
    _assert_int_equal(kit->event_count, count, file, line);
}

#define kit_expect(kit, ...)                                                                       \
    kit_expect_at((kit), (const int[]){__VA_ARGS__, PLM_EVENT_COUNT}, __FILE__, __LINE__)

#endif
