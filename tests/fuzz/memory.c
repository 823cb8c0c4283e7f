/* SPDX-License-Identifier: MIT */
/* The hooks are process-wide, so what they count stands in one place here. One thread. */
#include "fuzz/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* AddressSanitizer's; absent without it. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *))
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *block) __attribute__((weak));

static struct {
    bool is_installed;
    bool is_counting;
    int64_t live_bytes; /* since the input began */
    int64_t high_bytes;
} memory;

static void on_malloc(const volatile void *block, size_t bytes)
{
    (void)block;
    if (!memory.is_counting)
        return;
    memory.live_bytes += (int64_t)bytes;
    if (memory.live_bytes > memory.high_bytes)
        memory.high_bytes = memory.live_bytes;
}

static void on_free(const volatile void *block)
{
    if (memory.is_counting && block)
        memory.live_bytes -= (int64_t)__sanitizer_get_allocated_size(block);
}

void plm_fuzz_memory_begin(void)
{
    if (!memory.is_installed && __sanitizer_install_malloc_and_free_hooks) {
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
        memory.is_installed = true;
    }
    memory.live_bytes = memory.high_bytes = 0;
    memory.is_counting = memory.is_installed;
}

void plm_fuzz_memory_end(size_t base_bytes, size_t multiple, size_t input_bytes)
{
    memory.is_counting = false;
    if (memory.high_bytes > (int64_t)(base_bytes + multiple * input_bytes)) {
        fprintf(stderr, "%zu bytes of input took %lld bytes of memory, more than %zu + %zu each\n",
                input_bytes, (long long)memory.high_bytes, base_bytes, multiple);
        abort();
    }
    if (memory.live_bytes != 0) {
        fprintf(stderr, "%lld bytes were not freed\n", (long long)memory.live_bytes);
        abort();
    }
}
