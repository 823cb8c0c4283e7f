/* SPDX-License-Identifier: MIT */
/*
 * The module for NVIDIA GPUs on the stand-in for a card (src/phantom): kernels do nothing, memory
 * counts, and every call of the driver and of the libraries can be made to fail (phantom/faults.h).
 * Whether what a kernel reckons is right, only test_cuda.c on a card can tell.
 *
 *     build/test_standin            the tests
 *     build/test_standin --train    one training on the card that PLIMSOLL_PHANTOM describes
 *
 * The loader reads LD_LIBRARY_PATH when a program begins, so this one begins again with the
 * stand-in's folder in front.
 */
#include "gpu/gpu_kit.h"

#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>

#include "base/file.h"
#include "phantom/faults.h"
#include "run/session.h"
#include "unit/scratch.h"

enum { UPDATES = 3, SAID_BYTES = 1024 };

#define MIB           ((size_t)1 << 20)
#define CARD_BYTES    (8192 * MIB)
#define CONTEXT_BYTES (500 * MIB)
#define PAGE_BYTES    (2 * MIB)  /* that the driver maps at once */
#define LATER_BYTES   (32 * MIB) /* that the device declares for what comes later */

static plm_faults *faults;
static size_t (*used_bytes)(int device), (*peak_bytes)(int device); /* by the stand-in's count */

/* ---- the card that is not there ---- */

static char program[PATH_MAX]; /* this one */
static char folder[SCRATCH_BYTES], card[SCRATCH_BYTES + 16];

/* For this process, before it first asks, and for those that it begins. */
static void describe_card(size_t memory_bytes, int capability)
{
    FILE *file = fopen(card, "w");
    assert_non_null(file);
    fprintf(file,
            "name a card that is not there\nmemory_bytes %zu\ncontext_bytes %zu\n"
            "multiprocessors 132\ncapability %d\nthreads_per_multiprocessor 2048\n"
            "blocks_per_multiprocessor 32\nshared_bytes_per_multiprocessor 102400\n"
            "shared_bytes_per_block_optin 101376\nregisters_per_multiprocessor 65536\n"
            "l2_bytes 62914560\nclock_khz 1980000\nmemory_clock_khz 3201000\nbus_bits 6144\n"
            "devices 1\ndriver 13000\nopens 1\n",
            memory_bytes, CONTEXT_BYTES, capability);
    fclose(file);
    setenv("PLIMSOLL_PHANTOM", card, 1);
}

static void find(void *address, const char *library, const char *name)
{
    void *opened = dlopen(library, RTLD_NOW), *found = opened ? dlsym(opened, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s of %s: %s\n", name, library, dlerror());
        exit(1);
    }
    memcpy(address, &found, sizeof found);
}

static void find_standin(void)
{
    find(&faults, "libcuda.so.1", "plm_all_faults");
    find(&used_bytes, PLM_PHANTOM_LIBRARY, "plm_phantom_used_bytes");
    find(&peak_bytes, PLM_PHANTOM_LIBRARY, "plm_phantom_peak_bytes");
}

/* ---- a training ---- */

/* Plans, trains, evaluates, generates, measures; each program runs until its graph does. `run` is
 * to be closed whatever comes. */
static plm_status train(const small_shape *shape, small_run *run, plm_session_measure *measure)
{
    static small_window window;
    static float logits[SMALL_TENSOR_MAX];
    plm_step_result result;
    double loss;
    int64_t counted;
    small_run_describe(run, shape);
    PLM_TRY(plm_plan_create(&run->job, &run->strategy, gpu, &run->plan));
    run->summary = plm_plan_summarize(run->plan);
    /* Unchecked in every build: kernels that do nothing leave their results unwritten. */
    PLM_TRY(plm__session_create_as(run->plan, gpu, shape->seed, false, &run->session));
    for (int64_t i = 0; i < UPDATES; i++)
        PLM_TRY(try_step(run, shape, i, &result));
    small_window_fill(&window, shape->batch * shape->sequence, shape->vocab, 1);
    for (int i = 0; i < 2; i++) {
        PLM_TRY(plm_session_evaluate(run->session, shape->batch, window.tokens, window.targets,
                                     &loss, &counted));
        PLM_TRY(plm_session_generate(run->session, 2, window.tokens, shape->vocab, logits));
    }
    return plm_session_measure_memory(run->session, measure);
}

/* ---- kernels ---- */

/* The function of each row of kernels.def. */
static const char *const cuda_rows[PLM_OP_COUNT] = {
#define PLM_KERNEL_CUDA(kind, function, workspace) [PLM_OP_##kind] = #function,
#include "device/kernels.def"
};

static int64_t asked(const char *function)
{
    return faults->count(function);
}

/* Memory for the workspace, the step record and each operand of `launch`, in this order. */
static void *place(plm_launch *launch, size_t *bytes)
{
    void *region = NULL;
    size_t starts[OPERANDS], step_at = plm__granules(launch->workspace_bytes);
    size_t end = step_at + plm__granules(sizeof *launch->step);
    for (int i = 0; i < OPERANDS; i++) {
        starts[i] = end;
        end += plm__granules((size_t)plm__operand_count(operand_at(launch, i)) * sizeof(float));
    }
    assert_ok(gpu->table->reserve(gpu, end, &region));
    launch->workspace = launch->workspace_bytes ? region : NULL;
    launch->step = (plm_step_record *)(void *)((char *)region + step_at);
    for (int i = 0; i < OPERANDS; i++)
        if (operand_at(launch, i)->rank > 0)
            operand_at(launch, i)->data = (char *)region + starts[i];
    *bytes = end;
    return region;
}

static void launch_one(plm_op_kind kind, const extents *n, int variant, op_types types)
{
    int64_t products = asked("cublasLtMatmul");
    int64_t kernels = asked("cuLaunchKernel") + asked("cudnnBackendExecute");
    plm_launch launch = {.kind = kind, .attr = attributes(n, variant & 1, variant >> 1)};
    size_t bytes;
    for (int i = 0; i < OPERANDS; i++)
        if (word_at(&op_table[kind], i))
            shape_operand(n, types, word_at(&op_table[kind], i), operand_at(&launch, i));
    assert_ok(gpu->table->workspace(gpu, &launch, &launch.workspace_bytes));
    void *region = place(&launch, &bytes);
    run_op(gpu, &launch);
    gpu->table->release(gpu, region, bytes);
    bool multiplies = strcmp(cuda_rows[kind], "product") == 0;
    bool launched = multiplies ? asked("cublasLtMatmul") > products
                               : asked("cuLaunchKernel") + asked("cudnnBackendExecute") > kernels;
    if (!launched)
        fail_msg("%s in %s launched nothing", plm__op_info_of(kind)->text,
                 plm_dtype_text(types.precision));
}

static void every_operation_has_its_kernels(void **state)
{
    (void)state;
    assert_ok(plm_device_open("cuda", 0, 0, &gpu));
    for (int kind = 0; kind < PLM_OP_COUNT; kind++) {
        if (!cuda_rows[kind])
            fail_msg("kernels.def has no row of CUDA for %s", plm__op_info_of(kind)->text);
        for (int types = 0; types < TYPES; types++)
            for (int shape = 0; shape < SHAPES; shape++)
                for (int variant = 0; variant < 4; variant++)
                    if (is_for(&shapes[shape], (plm_op_kind)kind))
                        launch_one((plm_op_kind)kind, &shapes[shape], variant, all_types[types]);
    }
    plm_device_destroy(gpu);
}

/* That every kernel was found when the device was opened tells something: the stand-in reads the
 * names in the machine code that nvcc made. */
static void a_kernel_that_is_not_in_the_code_is_not_found(void **state)
{
    (void)state;
    int (*load)(void **module, const void *image), (*unload)(void *module);
    int (*get)(void **function, void *module, const char *name);
    void *module = NULL, *function = NULL;
    plm_file code;
    find(&load, "libcuda.so.1", "cuModuleLoadData");
    find(&unload, "libcuda.so.1", "cuModuleUnload");
    find(&get, "libcuda.so.1", "cuModuleGetFunction");
    assert_ok(plm__file_map(PLM_STANDIN_CODE, &code));
    assert_int_equal(load(&module, code.bytes), 0);
    assert_int_equal(get(&function, module, "gelu_bf16"), 0);
    assert_int_equal(get(&function, module, "gelu_bf17"), 500);
    assert_int_equal(unload(module), 0);
    plm__file_unmap(&code);
}

/* ---- memory ---- */

/* A drawn strategy at a size of many of the driver's pages: kernels that do nothing cost nothing.
 */
static small_shape large_shape(int64_t i)
{
    small_shape shape = random_shape(i);
    shape.width *= 8;
    shape.vocab *= 64;
    shape.mlp_chunks = shape.update == PLM_UPDATE_EARLY ? 1 : 1 + pick(i, 11, 3);
    return shape;
}

static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void forty_random_strategies_are_handed_out_what_was_predicted(void **state)
{
    (void)state;
    size_t largest = 0;
    assert_ok(plm_device_open("cuda", 0, 0, &gpu));
    for (int64_t i = 0; i < STRATEGIES; i++) {
        small_shape shape = large_shape(i);
        small_run run;
        plm_session_measure measure;
        plm__device_limit(gpu, 0); /* the high water begins anew */
        assert_ok(train(&shape, &run, &measure));
        size_t arena = run.summary.arena_bytes;
        assert_int_equal(run.summary.peak_bytes, arena + CONTEXT_BYTES + LATER_BYTES);
        assert_int_equal(measure.peak_bytes, run.summary.peak_bytes);
        assert_int_equal(used_bytes(0), in_pages(arena));
        assert_int_equal(measure.driver_bytes, in_pages(arena) + CONTEXT_BYTES);
        small_run_close(&run);
        assert_int_equal(used_bytes(0), 0);
        largest = in_pages(arena) > largest ? in_pages(arena) : largest;
    }
    assert_true(largest > 16 * PAGE_BYTES);
    assert_int_equal(peak_bytes(0), largest); /* at no time was there more than one arena */
    plm_device_destroy(gpu);
}

static void the_predicted_bytes_suffice_and_one_granule_less_is_refused(void **state)
{
    (void)state;
    small_run run;
    plm_session_measure measure;
    plm_error error;
    assert_ok(plm_device_open("cuda", 0, 0, &gpu));
    assert_ok(train(&usual, &run, &measure));
    size_t arena = run.summary.arena_bytes;
    small_run_close(&run);
    plm__device_limit(gpu, arena - PLM_GRANULE_BYTES);
    assert_int_equal(train(&usual, &run, &measure), PLM_ERROR_DEVICE_MEMORY);
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, arena);
    assert_int_equal(error.oom.budget_bytes, arena - PLM_GRANULE_BYTES);
    assert_int_equal(used_bytes(0), 0);
    small_run_close(&run);
    plm__device_limit(gpu, arena);
    assert_ok(train(&usual, &run, &measure));
    small_run_close(&run);
    plm_device_destroy(gpu);
}

/* ---- everything fails once ---- */

typedef enum failure { ONCE, PERSISTENT, OUT_OF_MEMORY, HOST, FAILURES } failure;

static const char *const failure_names[FAILURES] = {"once", "and all that follow",
                                                    "for want of memory", "for host memory"};

/* Calls without which a training goes on as well. */
static const char *const dispensable[] = {
    "cuDeviceGetPCIBusId", /* by which NVML finds the card */
    "nvmlInit_v2",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3", /* the driver's free bytes say it too */
    "nvmlShutdown",
    "cudnnBackendCreateDescriptor", /* of a plan: the next configuration may do */
    "cudnnBackendSetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendGetAttribute",
    "cudnnBackendDestroyDescriptor",
    "cublasLtMatmulPreferenceDestroy",
    "cuGraphDestroy",
};

static bool is_dispensable(const char *call)
{
    for (size_t i = 0; i < sizeof dispensable / sizeof *dispensable; i++)
        if (strcmp(dispensable[i], call) == 0)
            return true;
    return false;
}

/* What a training came to, and how many calls it had made when its end began. */
typedef struct outcome {
    plm_status status;
    plm_error error;
    int64_t calls, nvml_begins;
} outcome;

static outcome train_from_open_to_close(const small_shape *shape)
{
    small_run run = {0};
    plm_session_measure measure;
    outcome found = {.nvml_begins = -asked("nvmlInit_v2")};
    faults->calls = 0;
    faults->failed = NULL;
    gpu = NULL;
    found.status = plm_device_open("cuda", 0, 0, &gpu);
    assert_true(found.status == PLM_OK || !gpu);
    if (found.status == PLM_OK)
        found.status = train(shape, &run, &measure);
    plm_error_get(&found.error);
    found.calls = faults->calls;
    found.nvml_begins += asked("nvmlInit_v2");
    small_run_close(&run);
    plm_device_destroy(gpu);
    return found;
}

/* The driver's functions are called cu and a capital letter. */
static bool is_of_driver(const char *call)
{
    return strncmp(call, "cu", 2) == 0 && call[2] >= 'A' && call[2] <= 'Z';
}

/* Whether the message names the call that failed first; some are told by what they are for. */
static bool is_told(const char *message, const char *call)
{
    static const struct {
        const char *call, *told;
    } purposes[] = {
        {"cuMemAddressReserve", " cuMemAddressReserve"},
        {"cuMemCreate", " the arena"},
        {"cuMemMap", " the arena"},
        {"cuMemSetAccess", " the arena"},
        {"cuGraphInstantiateWithFlags", " graph of a program"},
        {"cuMemHostAlloc", " memory of the host"},
        {"cuStreamSynchronize", " copies of inputs"},
    };
    size_t length = strcspn(call, "_"); /* cuMemGetInfo_v2 is cuMemGetInfo to who calls */
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++)
        if (strcmp(purposes[i].call, call) == 0 &&
            (strstr(message, purposes[i].told) || strstr(message, "refused by the driver")))
            return true;
    const char *found = strstr(message, " refused ");
    return found && strncmp(found + strlen(" refused "), call, length) == 0;
}

static bool is_right(failure how, int64_t n, const outcome *whole, const outcome *found)
{
    plm_status status = found->status;
    const char *message = found->error.message;
    if (status == PLM_OK && how == HOST) /* NVML's reader had none */
        return found->nvml_begins < whole->nvml_begins;
    if (status == PLM_OK)
        return n > found->calls || is_dispensable(faults->failed);
    if (found->error.status != status || !*message || strchr(message, '\n'))
        return false;
    if (how == HOST)
        return status == PLM_ERROR_HOST_MEMORY;
    if (!is_of_driver(faults->failed))
        return status == PLM_ERROR_DEVICE || status == PLM_ERROR_UNSUPPORTED;
    if (how == OUT_OF_MEMORY && strcmp(faults->failed, "cuMemHostAlloc") == 0)
        return status == PLM_ERROR_HOST_MEMORY;
    return status == (how == OUT_OF_MEMORY ? PLM_ERROR_DEVICE_MEMORY : PLM_ERROR_DEVICE) &&
           (is_dispensable(faults->failed) || is_told(message, faults->failed));
}

/* Whether there was an n-th call to fail. */
static bool fail_nth(const small_shape *shape, failure how, int64_t n, const outcome *whole)
{
    faults->fail_at = how == HOST ? 0 : n;
    faults->persistent = how == PERSISTENT;
    faults->out_of_memory = how == OUT_OF_MEMORY;
    plm__host_fail_at(how == HOST ? n : 0, false);
    outcome found = train_from_open_to_close(shape);
    bool fired = plm__host_fail_at(0, false) || faults->failed;
    const char *call = faults->failed ? faults->failed : "host memory", *open = faults->open();
    int64_t blocks = plm__host_stats_get().live_count;
    faults->fail_at = 0;
    if (fired && (!is_right(how, n, whole, &found) || blocks != 0 || used_bytes(0) != 0 || open))
        fail_msg("%s, number %lld, fails %s: %s, \"%s\"; left are %lld host blocks, %zu bytes of "
                 "the card, %s",
                 call, (long long)n, failure_names[how], plm_status_name(found.status),
                 found.error.message, (long long)blocks, used_bytes(0),
                 open ? open : "no open handle");
    return fired;
}

static void sweep(const small_shape *shape, failure how)
{
    const outcome whole = train_from_open_to_close(shape);
    assert_int_equal(whole.status, PLM_OK);
    for (int64_t n = 1; fail_nth(shape, how, n, &whole); n += 1 + SANITIZED * n / 50) {
        outcome next = train_from_open_to_close(shape);
        assert_int_equal(next.status, PLM_OK);
        assert_int_equal(next.calls, whole.calls);
    }
}

/* Of sixteen bits, with fused attention: all libraries are called. As small as that goes. */
static const small_shape swept = {.layers = 1,
                                  .width = 16,
                                  .heads = 2,
                                  .context = 8,
                                  .vocab = 20,
                                  .batch = 4,
                                  .micro_batch = 2,
                                  .sequence = 8,
                                  .dropout = 0.1f,
                                  .precision = PLM_DTYPE_BF16,
                                  .seed = 3};

static void each_call_fails_once_cleanly(void **state)
{
    (void)state;
    small_shape shape = swept;
    sweep(&swept, ONCE);
    shape.precision = PLM_DTYPE_F32;
    shape.attention = PLM_ATTENTION_PLAIN;
    sweep(&shape, ONCE);
}

static void each_call_fails_with_all_that_follow(void **state)
{
    (void)state;
    sweep(&swept, PERSISTENT);
}

static void each_call_fails_for_want_of_memory(void **state)
{
    (void)state;
    sweep(&swept, OUT_OF_MEMORY);
    sweep(&swept, HOST);
}

static int64_t launched(void)
{
    return asked("cuLaunchKernel") + asked("cublasLtMatmul") + asked("cudnnBackendExecute");
}

static int64_t graphs_made(void)
{
    return asked("cuGraphInstantiateWithFlags");
}

/* Opens a run of `swept` on the open device and makes the updates before `update`. */
static void open_run(small_run *run, int64_t update)
{
    plm_step_result result;
    small_run_describe(run, &swept);
    assert_ok(plm_plan_create(&run->job, &run->strategy, gpu, &run->plan));
    assert_ok(plm__session_create_as(run->plan, gpu, swept.seed, false, &run->session));
    for (int64_t i = 0; i < update; i++)
        assert_ok(try_step(run, &swept, i, &result));
}

/* Whether the n-th call of an update failed. The update is made again: every operation is launched
 * once more, or stands in a graph that was recorded whole, and no program is recorded that has not
 * gone through without. */
static bool goes_on_after(int64_t update, int64_t n, int64_t launches)
{
    small_run run;
    plm_step_result result = {.counted = -1};
    open_run(&run, update);
    int64_t before = launched();
    faults->calls = 0;
    faults->failed = NULL;
    faults->fail_at = n;
    plm_status status = try_step(&run, &swept, update, &result);
    faults->fail_at = 0;
    if (faults->failed && status != PLM_OK) {
        int64_t graphs = graphs_made();
        bool is_first = launched() == before + 1; /* this one failed */
        assert_int_equal(result.counted, -1);
        assert_ok(try_step(&run, &swept, update, &result));
        assert_true(launched() - before >= launches);
        if (update == 0 && is_first)
            assert_int_equal(graphs_made(), graphs);
        assert_ok(try_step(&run, &swept, update + 1, &result));
    }
    small_run_close(&run);
    return faults->failed != NULL;
}

static void a_session_goes_on_where_a_call_failed(void **state)
{
    (void)state;
    assert_ok(plm_device_open("cuda", 0, 0, &gpu));
    for (int64_t update = 0; update < 2; update++) { /* launch by launch, then recorded */
        small_run run;
        plm_step_result result;
        open_run(&run, update);
        int64_t before = launched(), graphs = graphs_made();
        assert_ok(try_step(&run, &swept, update, &result));
        int64_t launches = launched() - before;
        assert_int_equal(graphs_made() > graphs, update > 0);
        small_run_close(&run);
        for (int64_t n = 1; goes_on_after(update, n, launches); n++) {
        }
    }
    plm_device_destroy(gpu);
}

/* ---- other cards, each in a process of its own ---- */

/* Prints the arena's bytes, or what was refused. */
static int train_once(void)
{
    small_run run = {0};
    plm_session_measure measure;
    plm_error error;
    plm_status status = plm_device_open("cuda", 0, 0, &gpu);
    if (status == PLM_OK)
        status = train(&usual, &run, &measure);
    plm_error_get(&error);
    if (status == PLM_OK)
        printf("%zu\n", run.summary.arena_bytes);
    else
        printf("%s: %s\n", plm_status_name(status), error.message);
    small_run_close(&run);
    plm_device_destroy(gpu);
    return plm__host_stats_get().live_count != 0 || used_bytes(0) != 0 || faults->open();
}

static const char *train_on(size_t memory_bytes, int capability)
{
    static char said[SAID_BYTES];
    char command[sizeof program + 16];
    snprintf(command, sizeof command, "'%s' --train", program);
    describe_card(memory_bytes, capability);
    FILE *process = popen(command, "r");
    assert_non_null(process);
    said[fread(said, 1, sizeof said - 1, process)] = '\0';
    assert_int_equal(pclose(process), 0);
    return said;
}

static size_t arena_on(size_t memory_bytes, int capability)
{
    return strtoull(train_on(memory_bytes, capability), NULL, 10);
}

static void every_processor_that_is_built_for_has_every_kernel(void **state)
{
    (void)state;
    static const int built[] = {PLM_STANDIN_PROCESSORS};
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        assert_true(arena_on(CARD_BYTES, built[i]) > 0);
    assert_non_null(strstr(train_on(CARD_BYTES, 75), "compute capability 7.5; wanted Ampere"));
}

static void a_card_is_full_at_the_byte_that_the_last_page_lacks(void **state)
{
    (void)state;
    size_t arena = arena_on(CARD_BYTES, 90), least = CONTEXT_BYTES + in_pages(arena);
    assert_true(arena > 0);
    assert_int_equal(arena_on(least, 90), arena);
    const char *said = train_on(least - 1, 90);
    assert_non_null(strstr(said, "ERROR_DEVICE_MEMORY: out of memory on the GPU: wanted "));
    assert_non_null(strstr(said, "more than the device has free"));
}

/* ---- */

static void begin_again_with_standin(char **arguments)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char path[2 * PATH_MAX];
    if (before && strncmp(before, PLM_STANDIN_FOLDER, strlen(PLM_STANDIN_FOLDER)) == 0)
        return;
    snprintf(path, sizeof path, PLM_STANDIN_FOLDER "%s%s", before ? ":" : "", before ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    execv(program, arguments);
    perror(program);
    exit(1);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_its_kernels),
        cmocka_unit_test(a_kernel_that_is_not_in_the_code_is_not_found),
        cmocka_unit_test(forty_random_strategies_are_handed_out_what_was_predicted),
        cmocka_unit_test(the_predicted_bytes_suffice_and_one_granule_less_is_refused),
        cmocka_unit_test(each_call_fails_once_cleanly),
        cmocka_unit_test(each_call_fails_with_all_that_follow),
        cmocka_unit_test(each_call_fails_for_want_of_memory),
        cmocka_unit_test(a_session_goes_on_where_a_call_failed),
        cmocka_unit_test(every_processor_that_is_built_for_has_every_kernel),
        cmocka_unit_test(a_card_is_full_at_the_byte_that_the_last_page_lacks),
    };
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return 1;
    begin_again_with_standin(arguments);
    mallopt(M_TRIM_THRESHOLD, 64 * MIB); /* thousands of trainings: pages are kept */
    mallopt(M_MMAP_THRESHOLD, 32 * MIB);
    find_standin();
    if (count > 1)
        return train_once();
    if (!scratch_folder(folder))
        return 1;
    snprintf(card, sizeof card, "%s/card", folder);
    describe_card(CARD_BYTES, 90);
    int failed = run_test_group(tests);
    remove(card);
    rmdir(folder);
    return failed;
}
