/* SPDX-License-Identifier: MIT */
/*
 * What a step allocates, by anyone in the process: this program's malloc stands before the C
 * library's and counts. The engine's own code must not allocate at all. oneDNN does, inside
 * dnnl_primitive_execute, whatever scratchpad it is given: a few small blocks that are free again
 * when the product is done. So what is held must come back to where it was, and what comes between
 * must stay small. Pages that a library maps by itself are not seen.
 */
#include "engine/small_run.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTS 1
#else
#define COUNTS 0 /* the names below are another's */
#endif

/* Between two instants; all threads. */
static struct {
    atomic_bool on;
    atomic_llong own_calls;     /* made by code of this program, the library in it */
    atomic_llong library_calls; /* made by the libraries that it is linked with */
    atomic_llong held_bytes;    /* allocated less freed */
    atomic_llong most_bytes;    /* held at once */
} counted;

#if COUNTS

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);
extern const char __executable_start[], etext[];

/* Takes a block into account, for whoever's code `caller` is in. */
static void *count(void *block, const void *caller)
{
    if (!atomic_load(&counted.on) || !block)
        return block;
    bool own = (const char *)caller >= __executable_start && (const char *)caller < etext;
    atomic_fetch_add(own ? &counted.own_calls : &counted.library_calls, 1);
    long long bytes = (long long)malloc_usable_size(block);
    long long held = atomic_fetch_add(&counted.held_bytes, bytes) + bytes;
    long long most = atomic_load(&counted.most_bytes);
    while (held > most && !atomic_compare_exchange_weak(&counted.most_bytes, &most, held))
        ;
    return block;
}

static void forget(void *block)
{
    if (atomic_load(&counted.on) && block)
        atomic_fetch_sub(&counted.held_bytes, (long long)malloc_usable_size(block));
}

void *malloc(size_t bytes)
{
    return count(__libc_malloc(bytes), __builtin_return_address(0));
}

void *calloc(size_t items, size_t bytes)
{
    return count(__libc_calloc(items, bytes), __builtin_return_address(0));
}

void *realloc(void *block, size_t bytes)
{
    forget(block);
    return count(__libc_realloc(block, bytes), __builtin_return_address(0));
}

void *memalign(size_t alignment, size_t bytes)
{
    return count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    void *made = count(__libc_memalign(alignment, bytes), __builtin_return_address(0));
    if (made)
        *block = made;
    return made ? 0 : ENOMEM;
}

void free(void *block)
{
    forget(block);
    __libc_free(block);
}

#endif

static void step(small_run *run, const small_shape *shape, int64_t number)
{
    static small_window window;
    plm_hyper hyper = plm_hyper_default();
    plm_step_result result;
    int64_t tokens = shape->batch * shape->sequence, targets;
    double loss;
    small_window_fill(&window, tokens, shape->vocab, (uint32_t)number + 1);
    assert_ok(plm_session_step(run->session, number, &hyper, shape->batch, window.tokens,
                               window.targets, &result));
    assert_ok(plm_session_evaluate(run->session, shape->batch, window.tokens, window.targets, &loss,
                                   &targets));
}

/* Two updates to warm, then some that are counted. */
static void count_steps(const small_shape *shape, const char *what)
{
    enum { WARM = 2, COUNTED = 4 };
    small_run run;
    small_run_open(&run, shape);
    for (int i = 0; i < WARM; i++)
        step(&run, shape, i);
    memset(&counted, 0, sizeof counted);
    atomic_store(&counted.on, true);
    for (int i = 0; i < COUNTED; i++)
        step(&run, shape, WARM + i);
    atomic_store(&counted.on, false);
    print_message("%s: %lld calls a step by the engine, %lld by its libraries, at most %lld bytes "
                  "at once, %lld kept\n",
                  what, atomic_load(&counted.own_calls) / COUNTED,
                  atomic_load(&counted.library_calls) / COUNTED, atomic_load(&counted.most_bytes),
                  atomic_load(&counted.held_bytes));
    small_run_close(&run);
}

static void steps_allocate_nothing_and_their_libraries_keep_nothing(void **state)
{
    (void)state;
    static const small_shape usual = {.layers = 2,
                                      .width = 64,
                                      .heads = 4,
                                      .context = 32,
                                      .vocab = 96,
                                      .batch = 8,
                                      .micro_batch = 4,
                                      .sequence = 32,
                                      .dropout = 0.1f,
                                      .seed = 5};
    static const struct {
        const char *what;
        plm_dtype precision;
        plm_attention_form attention;
        int32_t threads;
    } cases[] = {{"fp32, fused", PLM_DTYPE_F32, PLM_ATTENTION_FUSED, 1},
                 {"fp32, plain", PLM_DTYPE_F32, PLM_ATTENTION_PLAIN, 1},
                 {"fp32, fused, two threads", PLM_DTYPE_F32, PLM_ATTENTION_FUSED, 2},
                 {"bf16, fused", PLM_DTYPE_BF16, PLM_ATTENTION_FUSED, 1},
                 {"bf16, plain, two threads", PLM_DTYPE_BF16, PLM_ATTENTION_PLAIN, 2}};
    enum { LIBRARY_BYTES_MAX = 16 * 1024 }; /* at once, of all threads */
    if (!COUNTS)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        small_shape shape = usual;
        shape.precision = cases[i].precision;
        shape.attention = cases[i].attention;
        shape.threads = cases[i].threads;
        count_steps(&shape, cases[i].what);
        assert_int_equal(atomic_load(&counted.own_calls), 0);
        assert_int_equal(atomic_load(&counted.held_bytes), 0);
        assert_true(atomic_load(&counted.most_bytes) <= LIBRARY_BYTES_MAX);
    }
}

/* A count that misses what it should see proves nothing. */
static void the_count_sees_this_programs_calls_and_a_librarys(void **state)
{
    (void)state;
    if (!COUNTS)
        skip();
    void *block = NULL;
    memset(&counted, 0, sizeof counted);
    atomic_store(&counted.on, true);
    assert_ok(plm__host_alloc(100, &block));
    json_t *text = json_string("from a library"); /* whose blocks come through the engine's door */
    FILE *file = fopen("/dev/null", "r");
    atomic_store(&counted.on, false);
    assert_true(atomic_load(&counted.own_calls) >= 2);
    assert_true(atomic_load(&counted.library_calls) >= 1);
    assert_true(atomic_load(&counted.held_bytes) > 100);
    json_decref(text);
    plm__host_free(block);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_sees_this_programs_calls_and_a_librarys),
        cmocka_unit_test(steps_allocate_nothing_and_their_libraries_keep_nothing),
    };
    return run_test_group(tests);
}
