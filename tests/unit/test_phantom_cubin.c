/* SPDX-License-Identifier: MIT */
/*
 * What the stand-in reads of machine code: each figure that a kernel has, and files that are cut
 * off or lie about themselves. Figures that cuobjdump -res-usage tells of files of nvcc 13.0 and
 * ptxas 12.8, for sm_80 and sm_90, were the same as those read here; the shared memory of sm_90 but
 * for CUDA's own 1024 bytes, which ptxas -v leaves out too.
 */
#include "phantom/cubin.h"

#include "unit/fake_cubin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

static const struct fake_kernel full = {.registers = 40,
                                        .frame_bytes = 96,
                                        .stack_bytes = 200,
                                        .constant_bytes = 256,
                                        .shared_bytes = 1200,
                                        .bound = {16, 8, 2}};

static struct plm_image image_of(const struct fake_cubin *cubin)
{
    return (struct plm_image){cubin->bytes, cubin->count};
}

static struct plm_kernel_use use_of(const struct fake_kernel *big)
{
    struct fake_cubin cubin = fake_cubin_make(big);
    struct plm_kernel_use use = {0};
    const char *name = plm__cubin_find(image_of(&cubin), "big", &use);
    assert_non_null(name);
    assert_string_equal(name, "big");
    return use;
}

static void every_figure_is_read(void **state)
{
    (void)state;
    struct plm_kernel_use use = use_of(&full);
    assert_int_equal(use.registers, 40);
    assert_int_equal(use.local_bytes, 200);
    assert_int_equal(use.shared_bytes, 1200);
    assert_int_equal(use.constant_bytes, 256);
    assert_int_equal(use.max_threads, 256);
}

static void a_kernel_of_which_nothing_is_said_takes_nothing(void **state)
{
    (void)state;
    struct fake_cubin cubin = fake_cubin_make(&full);
    struct plm_kernel_use use;
    assert_non_null(plm__cubin_find(image_of(&cubin), "small", &use));
    assert_int_equal(use.registers, 16);
    assert_int_equal(use.local_bytes, 0);
    assert_int_equal(use.shared_bytes, 0);
    assert_int_equal(use.max_threads, 0);
    assert_int_equal(use.constant_bytes, 256); /* those are the module's */
}

static void only_kernels_are_found(void **state)
{
    (void)state;
    struct fake_cubin cubin = fake_cubin_make(&full);
    struct plm_kernel_use use = {.registers = -1};
    static const char *const others[] = {"helper", "bi", "bigg", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(plm__cubin_find(image_of(&cubin), others[i], &use));
    assert_int_equal(use.registers, -1); /* untouched */
}

static void registers_stand_at_the_text_or_among_the_attributes(void **state)
{
    (void)state;
    assert_int_equal(use_of(&(struct fake_kernel){.text_registers = 255}).registers, 255);
    assert_int_equal(use_of(&(struct fake_kernel){.registers = 255}).registers, 255);
    assert_int_equal(use_of(&(struct fake_kernel){0}).registers, 0);
}

static void the_larger_of_frame_and_stack_is_local(void **state)
{
    (void)state;
    assert_int_equal(use_of(&(struct fake_kernel){.frame_bytes = 8}).local_bytes, 8);
    assert_int_equal(use_of(&(struct fake_kernel){.frame_bytes = 16, .stack_bytes = 8}).local_bytes,
                     16);
}

static void the_smaller_bound_on_threads_holds(void **state)
{
    (void)state;
    struct fake_kernel both = {.bound = {256, 1, 1}, .wanted = {128, 1, 1}};
    assert_int_equal(use_of(&both).max_threads, 128);
    both.wanted[1] = 4;
    assert_int_equal(use_of(&both).max_threads, 256);
    both.bound[0] = both.bound[1] = both.bound[2] = UINT32_MAX; /* not to overflow */
    assert_int_equal(use_of(&both).max_threads, 512);
}

static void shared_memory_of_cuda_itself_is_not_the_kernels(void **state)
{
    (void)state;
    struct fake_kernel kernel = {.shared_bytes = 1024, .counts_reserved = true};
    assert_int_equal(use_of(&kernel).shared_bytes, 0);
    kernel.shared_bytes = 1023; /* then CUDA's were not counted */
    assert_int_equal(use_of(&kernel).shared_bytes, 1023);
    kernel.shared_bytes = 2224;
    assert_int_equal(use_of(&kernel).shared_bytes, 1200);
    kernel.counts_reserved = false;
    assert_int_equal(use_of(&kernel).shared_bytes, 2224);
}

/* At the end of a page behind which there is none: what reads on is stopped. */
static unsigned char *place(const struct fake_cubin *cubin, size_t bytes, unsigned char **pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(*pages, MAP_FAILED);
    assert_int_equal(munmap(*pages + page, page), 0);
    return memcpy(*pages + page - bytes, cubin->bytes, bytes);
}

static void files_cut_off_anywhere_are_read_to_their_end(void **state)
{
    (void)state;
    struct fake_cubin cubin = fake_cubin_make(&full);
    for (size_t bytes = 0; bytes <= cubin.count; bytes++) {
        unsigned char *pages, *at = place(&cubin, bytes, &pages);
        struct plm_image known = {at, bytes}, guessed = plm__cubin_at(at);
        struct plm_kernel_use use = {0};
        assert_int_equal(plm__cubin_is(known), bytes >= 4);
        const char *found = plm__cubin_find(known, "big", &use);
        assert_true(!found || use.registers <= 40);
        assert_true(guessed.bytes <= bytes);
        plm__cubin_find(guessed, "big", &use);
        if (bytes == cubin.count)
            assert_true(found && guessed.bytes == bytes);
        munmap(pages, (size_t)sysconf(_SC_PAGESIZE));
    }
}

static void any_field_may_lie(void **state)
{
    (void)state;
    static const uint64_t lies[] = {0, 1, 0x7fffffff, UINT32_MAX, UINT64_MAX - 63, UINT64_MAX};
    struct fake_cubin cubin = fake_cubin_make(&full);
    for (size_t at = 4; at + 8 <= cubin.count; at++)
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
            for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
                struct fake_cubin liar = cubin;
                struct plm_kernel_use use;
                fake_put(&liar, at, lies[i], bytes);
                unsigned char *told = malloc(liar.count); /* sanitizers see its end */
                assert_non_null(told);
                memcpy(told, liar.bytes, liar.count);
                plm__cubin_find((struct plm_image){told, liar.count}, "big", &use);
                plm__cubin_find((struct plm_image){told, liar.count}, "small", &use);
                free(told);
            }
}

static void what_is_no_cubin_or_nowhere_has_no_bytes(void **state)
{
    (void)state;
    assert_int_equal(plm__cubin_at(NULL).bytes, 0);
    assert_int_equal(plm__cubin_at((void *)0x1010).bytes, 0); /* a handle of the stand-in's */
    static const char text[256] = ".version 8.0";
    assert_int_equal(plm__cubin_at(text).bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_is_read),
        cmocka_unit_test(a_kernel_of_which_nothing_is_said_takes_nothing),
        cmocka_unit_test(only_kernels_are_found),
        cmocka_unit_test(registers_stand_at_the_text_or_among_the_attributes),
        cmocka_unit_test(the_larger_of_frame_and_stack_is_local),
        cmocka_unit_test(the_smaller_bound_on_threads_holds),
        cmocka_unit_test(shared_memory_of_cuda_itself_is_not_the_kernels),
        cmocka_unit_test(files_cut_off_anywhere_are_read_to_their_end),
        cmocka_unit_test(any_field_may_lie),
        cmocka_unit_test(what_is_no_cubin_or_nowhere_has_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
