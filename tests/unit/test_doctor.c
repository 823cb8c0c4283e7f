/* SPDX-License-Identifier: MIT */
/* Out-of-memory messages: the wordings of each version, what follows from them, and hostile text.
 */
#include "unit/test.h"

#include <jansson.h>
#include <sys/wait.h>

#include "base/text.h"
#include "plimsoll/doctor.h"

#define KIB     ((size_t)1024)
#define MIB     (1024 * KIB)
#define GIB(x)  ((size_t)((x)*1073741824.0 + 0.5))
#define MIBS(x) ((size_t)((x)*1048576.0 + 0.5))

enum { ALLOCATIONS_MAX = 4000, SEED = 20240611 };

#define ALLOC_CONF                                                                                 \
    "If reserved but unallocated memory is large try setting "                                     \
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation " \
    "for Memory Management  "                                                                      \
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"

typedef struct wording {
    const char *text;
    plm_oom_form form;
    const char *backend;
    int32_t device;
    size_t asked, capacity, free, allowed, process, listed, allocated, private, reserved,
        unallocated; /* 0: not in the message */
    plm_verdict verdict;
    bool proven;
} wording;

/* As the versions print them; figures of some were chosen so that each verdict is met. */
static const wording wordings[] = {
    {.text =
         "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total "
         "capacity; 14.30 GiB already allocated; 18.75 MiB free; 14.60 GiB reserved in total by "
         "PyTorch)",
     .form = PLM_OOM_FORM_PYTORCH_1,
     .backend = "CUDA",
     .asked = 20 * MIB,
     .capacity = GIB(15.78),
     .free = MIBS(18.75),
     .allocated = GIB(14.30),
     .reserved = GIB(14.60),
     .verdict = PLM_VERDICT_CAPACITY},
    {.text = "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 3; 10.92 GiB total "
             "capacity; 6.06 GiB already allocated; 832.00 MiB free; 3.33 GiB cached)",
     .form = PLM_OOM_FORM_PYTORCH_1,
     .backend = "CUDA",
     .device = 3,
     .asked = GIB(1),
     .capacity = GIB(10.92),
     .free = 832 * MIB,
     .allocated = GIB(6.06),
     .reserved = GIB(3.33), /* what 1.3 called cached was another sum; see below */
     .verdict = PLM_VERDICT_UNKNOWN},
    {.text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; "
             "39.59 GiB total capacity; 18.00 GiB already allocated; 19.00 GiB free; 20.00 GiB "
             "allowed; 19.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated "
             "memory try setting max_split_size_mb to avoid fragmentation.",
     .form = PLM_OOM_FORM_PYTORCH_1,
     .backend = "CUDA",
     .device = 1,
     .asked = GIB(2),
     .capacity = GIB(39.59),
     .free = GIB(19),
     .allowed = GIB(20),
     .allocated = GIB(18),
     .reserved = GIB(19.5),
     .verdict = PLM_VERDICT_LIMIT,
     .proven = true},
    {.text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 700.00 MiB. GPU 0 "
             "has a total capacty of 23.69 GiB of which 22.94 MiB is free. Process 1234 has 23.60 "
             "GiB memory in use. Of the allocated memory 12.00 GiB is allocated by PyTorch, and "
             "11.20 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory "
             "is large try setting max_split_size_mb to avoid fragmentation.",
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "CUDA",
     .asked = 700 * MIB,
     .capacity = GIB(23.69),
     .free = MIBS(22.94),
     .listed = GIB(23.60),
     .allocated = GIB(12),
     .unallocated = GIB(11.2),
     .verdict = PLM_VERDICT_FRAGMENTATION},
    {.text =
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 184.13 GiB. GPU 2 has a "
         "total capacity of 79.14 GiB of which 37.02 GiB is free. Including non-PyTorch memory, "
         "this process has 42.05 GiB memory in use. Of the allocated memory 38.58 GiB is "
         "allocated by PyTorch, with 105.08 MiB allocated in private pools (e.g., CUDA Graphs), "
         "and 850.91 MiB is reserved by PyTorch but unallocated. " ALLOC_CONF,
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "CUDA",
     .device = 2,
     .asked = GIB(184.13),
     .capacity = GIB(79.14),
     .free = GIB(37.02),
     .process = GIB(42.05),
     .allocated = GIB(38.58),
     .private = MIBS(105.08),
     .unallocated = MIBS(850.91),
     .verdict = PLM_VERDICT_TOO_LARGE,
     .proven = true},
    {.text =
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB. GPU 0 has a "
         "total capacity of 79.14 GiB of which 4.00 GiB is free. Process 11 has 20.00 GiB memory "
         "in use. Process 12 has 1.50 GiB memory in use. Including non-PyTorch memory, this "
         "process has 53.00 GiB memory in use. Of the allocated memory 50.00 GiB is allocated by "
         "PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated. " ALLOC_CONF,
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "CUDA",
     .asked = GIB(12),
     .capacity = GIB(79.14),
     .free = GIB(4),
     .process = GIB(53),
     .listed = GIB(21.5),
     .allocated = GIB(50),
     .unallocated = GIB(2),
     .verdict = PLM_VERDICT_OTHER_PROCESS,
     .proven = true},
    {.text =
         "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a "
         "total capacity of 139.81 GiB of which 300.06 MiB is free. Including non-PyTorch "
         "memory, this process has 139.50 GiB memory in use. Of the allocated memory 137.00 GiB "
         "is allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but unallocated. "
         "If reserved but unallocated memory is large try setting "
         "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "CUDA",
     .asked = GIB(3),
     .capacity = GIB(139.81),
     .free = MIBS(300.06),
     .process = GIB(139.5),
     .allocated = GIB(137),
     .unallocated = GIB(1.9),
     .verdict = PLM_VERDICT_CAPACITY,
     .proven = true},
    {.text = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a "
             "total capacity of 287.98 GiB of which 275.86 GiB is free. 1.05 GiB allowed; Of the "
             "allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in "
             "private pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but "
             "unallocated. " ALLOC_CONF,
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "HIP",
     .asked = 2 * MIB,
     .capacity = GIB(287.98),
     .free = GIB(275.86),
     .allowed = GIB(1.05),
     .allocated = MIBS(1017.01),
     .private = 17 * MIB,
     .unallocated = MIBS(54.99),
     .verdict = PLM_VERDICT_LIMIT,
     .proven = true},
    {.text =
         "HIP out of memory. Tried to allocate 2.00 MiB. GPU 7 has a total capacity of 287.98 GiB "
         "of which 203.49 GiB is free. Of the allocated memory 68.63 GiB is allocated by PyTorch, "
         "and 14.93 GiB is reserved by PyTorch but unallocated.",
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "HIP",
     .device = 7,
     .asked = 2 * MIB,
     .capacity = GIB(287.98),
     .free = GIB(203.49),
     .allocated = GIB(68.63),
     .unallocated = GIB(14.93),
     .verdict = PLM_VERDICT_UNKNOWN},
    {.text =
         "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 10.00 GiB. GPU 0 has a "
         "total capacity of 15.91 GiB. Of the allocated memory 12.00 GiB is allocated by "
         "PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. Please use `empty_cache` "
         "to release all unoccupied cached memory.",
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "XPU",
     .asked = GIB(10),
     .capacity = GIB(15.91),
     .allocated = GIB(12),
     .unallocated = GIB(1),
     .verdict = PLM_VERDICT_CAPACITY,
     .proven = true},
    {.text = "CUDA out of memory. Tried to allocate more than 1EB memory.",
     .form = PLM_OOM_FORM_PYTORCH_2,
     .backend = "CUDA",
     .device = -1,
     .asked = SIZE_MAX,
     .verdict = PLM_VERDICT_TOO_LARGE,
     .proven = true},
    {.text =
         "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of "
         "memory)\nCurrently allocated     : 22.43 GiB\nRequested               : 4.07 GiB\n"
         "Device limit            : 16.00 GiB\nFree (according to CUDA): 0 bytes\nPyTorch limit "
         "(set by user-supplied memory fraction)\n                        : 17179869184.00 GiB",
     .form = PLM_OOM_FORM_ASYNC,
     .backend = "",
     .device = 1,
     .asked = GIB(4.07),
     .capacity = GIB(16),
     .free = SIZE_MAX - 1, /* 0 bytes, which are known */
     .allowed = SIZE_MAX,
     .allocated = GIB(22.43),
     .verdict = PLM_VERDICT_CAPACITY,
     .proven = true},
    {.text = "RuntimeError: MPS backend out of memory (MPS allocated: 17.22 GB, other allocations: "
             "1.50 GB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool. Use "
             "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations "
             "(may cause system failure).",
     .form = PLM_OOM_FORM_MPS,
     .backend = "MPS",
     .device = -1,
     .asked = 256 * MIB,
     .allowed = GIB(18.13),
     .allocated = GIB(17.22),
     .verdict = PLM_VERDICT_LIMIT,
     .proven = true},
    {.text = "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously "
             "reported at some other API call",
     .form = PLM_OOM_FORM_LIBRARY,
     .backend = "CUDA",
     .device = -1,
     .verdict = PLM_VERDICT_LIBRARY,
     .proven = true},
    {.text =
         "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     .form = PLM_OOM_FORM_LIBRARY,
     .backend = "",
     .device = -1,
     .verdict = PLM_VERDICT_LIBRARY,
     .proven = true},
    {.text = "RuntimeError: cuda runtime error (2) : out of memory at "
             "/pytorch/aten/src/THC/generic/THCStorage.cu:58",
     .form = PLM_OOM_FORM_LIBRARY,
     .backend = "",
     .device = -1,
     .verdict = PLM_VERDICT_LIBRARY,
     .proven = true},
    {.text =
         "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out "
         "of memory'",
     .form = PLM_OOM_FORM_LIBRARY,
     .backend = "",
     .device = -1,
     .verdict = PLM_VERDICT_LIBRARY,
     .proven = true},
    {.text =
         "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't "
         "allocate memory: you tried to allocate 40000000000 bytes. Error code 12 (Cannot "
         "allocate memory)",
     .form = PLM_OOM_FORM_HOST,
     .backend = "",
     .device = -1,
     .asked = 40000000000u,
     .verdict = PLM_VERDICT_HOST,
     .proven = true},
    {.text = "torch.OutOfMemoryError: CUDA out of memory.",
     .form = PLM_OOM_FORM_BARE,
     .backend = "CUDA",
     .device = -1,
     .verdict = PLM_VERDICT_UNKNOWN},
};

static const size_t wording_count = sizeof wordings / sizeof *wordings;

static void check_figure(const wording *want, const plm_oom_message *message,
                         plm_oom_figure_kind kind, size_t bytes)
{
    const plm_oom_figure *figure = &message->figures[kind];
    size_t wanted = bytes == SIZE_MAX - 1 ? 0 : bytes;
    if (figure->known != (bytes != 0) || (figure->known && figure->bytes != wanted)) {
        print_error("figure %d of: %s\n", (int)kind, want->text);
        assert_true(figure->known == (bytes != 0));
        assert_int_equal(figure->bytes, wanted);
    }
}

static plm_oom_report read_one(const char *text)
{
    plm_oom_report report;
    assert_ok(plm_oom_read_text(text, strlen(text), &report));
    return report;
}

static bool says(const plm_oom_report *report, plm_oom_finding_kind kind, const char *words)
{
    for (int32_t i = 0; i < report->finding_count; i++)
        if (report->findings[i].kind == kind && strstr(report->findings[i].text, words))
            return true;
    return false;
}

static void every_wording_gives_its_figures_and_its_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < wording_count; i++) {
        const wording *want = &wordings[i];
        plm_oom_report report = read_one(want->text);
        const plm_oom_message *message = &report.message;
        assert_int_equal(report.message_count, 1);
        assert_int_equal(message->form, want->form);
        assert_string_equal(message->backend, want->backend);
        assert_int_equal(message->device, want->device);
        const size_t figures[PLM_OOM_FIGURE_COUNT] = {
            [PLM_OOM_ASKED] = want->asked,
            [PLM_OOM_CAPACITY] = want->capacity,
            [PLM_OOM_FREE] = want->free,
            [PLM_OOM_ALLOWED] = want->allowed,
            [PLM_OOM_THIS_PROCESS] = want->process,
            [PLM_OOM_LISTED] = want->listed,
            [PLM_OOM_ALLOCATED] = want->allocated,
            [PLM_OOM_PRIVATE] = want->private,
            [PLM_OOM_RESERVED] = want->reserved,
            [PLM_OOM_UNALLOCATED] = want->unallocated,
        };
        for (int kind = 0; kind < PLM_OOM_FIGURE_COUNT; kind++)
            check_figure(want, message, (plm_oom_figure_kind)kind, figures[kind]);
        if (report.verdict != want->verdict || report.proven != want->proven)
            print_error("verdict of: %s\n", want->text);
        assert_int_equal(report.verdict, want->verdict);
        assert_int_equal(report.proven, want->proven);
    }
}

static void the_size_of_a_segment_is_told_as_the_tensors(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"2.00 MiB", "at most 1 MiB"},
        {"20.00 MiB", "over 1 and under 10 MiB, or of over 18 up to 20 MiB"},
        {"10.00 MiB", "about 10.0 MiB"},
        {"44.00 MiB", "over 42.0 MiB up to 44.0 MiB"},
        {"512 bytes", "about 512 B"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "CUDA out of memory. Tried to allocate %s.", cases[i][0]);
        plm_oom_report report = read_one(text);
        if (!says(&report, PLM_OOM_PROVES, cases[i][1]))
            print_error("%s: %s\n", cases[i][0], report.findings[0].text);
        assert_true(says(&report, PLM_OOM_PROVES, cases[i][1]));
    }
}

static void a_process_in_a_container_is_known_by_what_fits(void **state)
{
    (void)state;
    plm_oom_report report = read_one(wordings[3].text); /* "Process 1234 has 23.60 GiB" */
    assert_true(says(&report, PLM_OOM_PROVES, "The process that it lists is this one"));
    assert_true(says(&report, PLM_OOM_PROVES, "409.6 MiB of this process lie outside"));
    report =
        read_one("CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of "
                 "40.00 GiB of which 1.00 GiB is free. Process 7 has 30.00 GiB memory in use. "
                 "Of the allocated memory 7.00 GiB is allocated by PyTorch, and 1.00 GiB is "
                 "reserved by PyTorch but unallocated.");
    assert_false(says(&report, PLM_OOM_PROVES, "The process that it lists is this one"));
    assert_true(says(&report, PLM_OOM_CANNOT, "Who holds the 31.00 GiB"));
}

static void rounding_is_never_taken_for_proof(void **state)
{
    (void)state;
    /* 1.00 GiB may be 1.004: with 0.50 + 0.50 it is not proven that they fall short. */
    plm_oom_report report = read_one(
        "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 "
        "GiB of which 0.50 GiB is free. Of the allocated memory 3.00 GiB is allocated by "
        "PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.");
    assert_int_equal(report.verdict, PLM_VERDICT_FRAGMENTATION);
    assert_false(report.proven);
    report =
        read_one("CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of "
                 "8.00 GiB of which 0.50 GiB is free. Of the allocated memory 3.00 GiB is "
                 "allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.");
    assert_int_equal(report.verdict, PLM_VERDICT_CAPACITY);
    assert_true(report.proven);
}

/* Figures in bytes are exact. The device has 10 GiB. */
static plm_oom_report exact(size_t asked, size_t free, size_t process, size_t allocated,
                            size_t unallocated)
{
    char text[512];
    snprintf(text, sizeof text,
             "CUDA out of memory. Tried to allocate %zu bytes. GPU 0 has a total capacity of "
             "10737418240 bytes of which %zu bytes is free. Including non-PyTorch memory, this "
             "process has %zu bytes memory in use. Of the allocated memory %zu bytes is allocated "
             "by PyTorch, and %zu bytes is reserved by PyTorch but unallocated.",
             asked, free, process, allocated, unallocated);
    return read_one(text);
}

/* 9000 MiB are reserved; the request is more than is free, and than it is cached in one piece. */
static void a_tenth_of_what_is_reserved_cached_is_fragmentation(void **state)
{
    (void)state;
    const size_t process = 9500 * MIB, free = 700 * MIB;
    plm_oom_report report = exact(800 * MIB, free, process, 8100 * MIB, 900 * MIB);
    assert_int_equal(report.verdict, PLM_VERDICT_FRAGMENTATION);
    report = exact(800 * MIB, free, process, 8100 * MIB + 1, 900 * MIB - 1);
    assert_int_equal(report.verdict, PLM_VERDICT_CAPACITY);
    assert_false(report.proven);
}

static void a_gibibyte_beside_the_process_is_another_one(void **state)
{
    (void)state;
    const size_t process = 10240 * MIB - 100 * MIB - 1024 * MIB;
    plm_oom_report report = exact(500 * MIB, 100 * MIB, process, 8000 * MIB, 100 * MIB);
    assert_int_equal(report.verdict, PLM_VERDICT_OTHER_PROCESS);
    assert_true(says(&report, PLM_OOM_PROVES, "1.00 GiB of the device are held by others"));
    report = exact(500 * MIB, 100 * MIB, process + 1, 8000 * MIB, 100 * MIB);
    assert_int_equal(report.verdict, PLM_VERDICT_CAPACITY);
    /* The request fits into what is free and the others hold, or is a byte more. */
    report = exact(1124 * MIB, 100 * MIB, process, 8000 * MIB, 100 * MIB);
    assert_int_equal(report.verdict, PLM_VERDICT_OTHER_PROCESS);
    report = exact(1124 * MIB + 1, 100 * MIB, process, 8000 * MIB, 100 * MIB);
    assert_int_equal(report.verdict, PLM_VERDICT_CAPACITY);
}

static void advice_on_splitting_is_answered_with_a_measurement(void **state)
{
    (void)state;
    plm_oom_report with = read_one(wordings[3].text), without = read_one(wordings[5].text);
    assert_true(says(&with, PLM_OOM_NEXT, "Do not set max_split_size_mb"));
    assert_false(says(&without, PLM_OOM_NEXT, "max_split_size_mb"));
}

static void a_message_broken_by_a_terminal_reads_the_same(void **state)
{
    (void)state;
    for (size_t columns = 20; columns < 130; columns += 7) {
        char text[2048];
        size_t count = 0;
        const char *from = wordings[5].text;
        for (size_t i = 0; from[i]; i++) { /* breaks at blanks, as a terminal's copy has them */
            bool full = i % columns == 0 && i > 0;
            text[count++] = full && from[i] == ' ' ? '\n' : from[i];
            if (from[i] == ' ' && i % 3 == 0)
                count += (size_t)snprintf(text + count, sizeof text - count, "\n[rank4]:   ");
        }
        text[count] = '\0';
        plm_oom_report report = read_one(text);
        assert_int_equal(report.verdict, PLM_VERDICT_OTHER_PROCESS);
        assert_int_equal(report.message.figures[PLM_OOM_LISTED].bytes, GIB(21.5));
    }
}

static void the_last_of_a_log_is_told_and_all_are_counted_by_rank(void **state)
{
    (void)state;
    plm_text log = {0};
    plm__text_add(&log, "step 1 12.5 GiB free\nstep 2\n");
    plm__text_add(&log, "[rank1]: Traceback (most recent call last):\n[rank1]: %s\n",
                  wordings[6].text);
    plm__text_add(&log, "[rank3]: %s\n[rank1]: %s\n", wordings[5].text, wordings[6].text);
    plm__text_add(&log, "(VllmWorker rank=2 pid=9) ERROR %s\nbye 3.00 GiB allowed\n",
                  wordings[4].text);
    plm_oom_report report = read_one(log.items);
    plm__text_fini(&log);
    assert_int_equal(report.message_count, 4);
    assert_int_equal(report.message.rank, 2);
    assert_int_equal(report.message.line, 7);
    assert_int_equal(report.verdict, PLM_VERDICT_TOO_LARGE);
    assert_false(report.message.figures[PLM_OOM_ALLOWED].known); /* of another line */
    assert_int_equal(report.source_count, 3);
    assert_int_equal(report.sources[0].rank, 1);
    assert_int_equal(report.sources[0].count, 2);
    assert_int_equal(report.sources[0].first_line, 4);
    assert_int_equal(report.sources[1].rank, 3);
    assert_int_equal(report.sources[2].rank, 2);
    assert_true(says(&report, PLM_OOM_NEXT, "line 4"));
}

static void a_message_is_found_wherever_a_long_log_is_cut(void **state)
{
    (void)state;
    for (size_t before = 61000; before < 66500; before += 137) {
        plm_text log = {0};
        plm__text_repeat(&log, ".........\n", (int64_t)before / 10);
        plm__text_repeat(&log, "x", (int64_t)before % 10);
        plm__text_add(&log, "[rank5]: %s\n", wordings[5].text);
        plm__text_repeat(&log, "Tried, all in vain.\n", 9000);
        plm_oom_report report = read_one(log.items);
        plm__text_fini(&log);
        assert_int_equal(report.message_count, 1);
        assert_int_equal(report.message.rank, 5);
        assert_int_equal(report.message.line, before / 10 + 1);
        assert_int_equal(report.verdict, PLM_VERDICT_OTHER_PROCESS);
    }
}

static void more_ranks_than_are_listed_are_counted_all_the_same(void **state)
{
    (void)state;
    plm_text log = {0};
    for (int rank = 0; rank < 100; rank++)
        plm__text_add(&log, "[rank%d]: %s\n", rank, wordings[5].text);
    plm_oom_report report = read_one(log.items);
    plm__text_fini(&log);
    assert_int_equal(report.message_count, 100);
    assert_int_equal(report.source_count, PLM_OOM_SOURCES_MAX);
    assert_true(report.sources_left_out);
    assert_int_equal(report.message.rank, 99);
}

static void a_text_without_a_message_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "all is well",
                                        "out of memory of man",
                                        "plimsoll_record: rank0: no out-of-memory error",
                                        "CUDA out of mem"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plm_oom_report report = {.message_count = 77};
        assert_int_equal(plm_oom_read_text(texts[i], strlen(texts[i]), &report), PLM_ERROR_FORMAT);
        assert_int_equal(report.message_count, 77);
    }
    plm_oom_report report;
    assert_int_equal(plm_oom_read_file("/no/such/file", &report), PLM_ERROR_IO);
    assert_int_equal(plm_oom_read_file("/", &report), PLM_ERROR_IO);
}

/* Whatever the report, it can be written out both ways. */
static void render(const plm_oom_report *report)
{
    char *text = NULL, *line = NULL;
    json_error_t error;
    assert_ok(plm_oom_report_text(report, (plm_report_style){.colour = true}, &text));
    assert_ok(plm_oom_report_json(report, &line));
    json_t *root = json_loads(line, 0, &error);
    assert_non_null(root);
    assert_true(json_is_string(json_object_get(root, "verdict")));
    json_decref(root);
    plm_free(text);
    plm_free(line);
}

static void a_message_cut_off_anywhere_gives_an_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < wording_count; i++) {
        size_t length = strlen(wordings[i].text);
        for (size_t from = 0; from < length; from += from < 40 ? 1 : length)
            for (size_t count = 0; count <= length - from; count++) {
                plm_oom_report report;
                char *exact = malloc(count ? count : 1); /* so that reading beyond it is seen */
                memcpy(exact, wordings[i].text + from, count);
                plm_status status = plm_oom_read_text(exact, count, &report);
                free(exact);
                assert_true(status == PLM_OK || status == PLM_ERROR_FORMAT);
                if (status == PLM_OK && count % 16 == 0)
                    render(&report);
            }
    }
}

static void hostile_text_is_only_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "CUDA out of memory. Tried to allocate 99999999999999999999999999999999999999999.99 GiB "
        "(GPU "
        "99999999999999999999; 1e999 GiB total capacity; .5 MiB free; -3 GiB already allocated)",
        "CUDA out of memory. Tried to allocate 800000000.00 GiB. GPU 0 has a total capacity of 0 "
        "bytes "
        "of which 84.98 GiB is free. Process 1 has 17179869183.00 GiB memory in use. Process 2 has "
        "17179869183.00 GiB memory in use.",
        "Tried to allocate %s%n%n 3.00 GiB \x1b[2J",
        "CUDA out of memory. CUDA out of memory. Tried to allocate Tried to allocate 1 GiB",
        "[rank99999999999]: HIP out of memory. Tried to allocate 1.. GiB",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plm_oom_report report = read_one(texts[i]);
        render(&report);
    }
    unsigned seed = SEED;
    for (int round = 0; round < 3000; round++) {
        char text[1024];
        size_t count =
            (size_t)snprintf(text, sizeof text, "%s", wordings[(size_t)round % wording_count].text);
        for (int i = 0; i < 6; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[(seed >> 8) % count] = (char)(seed >> 24);
        }
        plm_oom_report report;
        if (plm_oom_read_text(text, count, &report) == PLM_OK)
            render(&report);
    }
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    (void)state;
    for (int persistent = 0; persistent <= 1; persistent++)
        for (int64_t n = 1;; n++) {
            assert_true(n < ALLOCATIONS_MAX);
            plm_oom_report report;
            char *text = NULL, *line = NULL;
            plm__host_fail_at(n, persistent);
            plm_status status =
                plm_oom_read_text(wordings[5].text, strlen(wordings[5].text), &report);
            if (status == PLM_OK)
                status = plm_oom_report_text(&report, (plm_report_style){0}, &text);
            if (status == PLM_OK)
                status = plm_oom_report_json(&report, &line);
            bool fired = plm__host_fail_at(0, false);
            plm_free(text);
            plm_free(line);
            if (!fired) {
                assert_int_equal(status, PLM_OK);
                break;
            }
            assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
            assert_null(line);
        }
}

static int run_doctor(const char *arguments, char output[8192])
{
    char line[1024];
    snprintf(line, sizeof line, "printf '%%s' \"$OOM\" | '%s' doctor %s 2>&1", PLM_PROGRAM,
             arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    output[fread(output, 1, 8191, pipe)] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_command_reads_standard_input_a_file_or_an_operand(void **state)
{
    (void)state;
    char output[8192];
    setenv("OOM", wordings[6].text, 1);
    assert_int_equal(run_doctor("--message -", output), 0);
    assert_non_null(strstr(output, "the run needs more than it can have (proven"));
    assert_int_equal(run_doctor("--message /dev/stdin --json", output), 0);
    assert_non_null(strstr(output, "{\"verdict\":\"capacity\",\"proven\":true"));
    assert_int_equal(run_doctor("\"$OOM\"", output), 0);
    assert_int_equal(run_doctor("'nothing here'", output), 2);
    assert_int_equal(run_doctor("--message /no/such/file", output), 2);
    assert_int_equal(run_doctor("", output), 2);
    assert_int_equal(run_doctor("--message - text", output), 2);
    unsetenv("OOM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wording_gives_its_figures_and_its_verdict),
        cmocka_unit_test(the_size_of_a_segment_is_told_as_the_tensors),
        cmocka_unit_test(a_process_in_a_container_is_known_by_what_fits),
        cmocka_unit_test(rounding_is_never_taken_for_proof),
        cmocka_unit_test(a_tenth_of_what_is_reserved_cached_is_fragmentation),
        cmocka_unit_test(a_gibibyte_beside_the_process_is_another_one),
        cmocka_unit_test(advice_on_splitting_is_answered_with_a_measurement),
        cmocka_unit_test(a_message_broken_by_a_terminal_reads_the_same),
        cmocka_unit_test(the_last_of_a_log_is_told_and_all_are_counted_by_rank),
        cmocka_unit_test(a_message_is_found_wherever_a_long_log_is_cut),
        cmocka_unit_test(more_ranks_than_are_listed_are_counted_all_the_same),
        cmocka_unit_test(a_text_without_a_message_is_refused),
        cmocka_unit_test(a_message_cut_off_anywhere_gives_an_answer),
        cmocka_unit_test(hostile_text_is_only_text),
        cmocka_unit_test(a_failed_allocation_leaves_nothing),
        cmocka_unit_test(the_command_reads_standard_input_a_file_or_an_operand),
    };
    return run_test_group(tests);
}
