/* SPDX-License-Identifier: MIT */
/* settings: what a request takes, what the driver is asked for, and the settings string. */
#include "pool/settings.h"
#include "torch/alloc_conf.h"
#include "unit/test.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static plm_pool_settings parsed(const char *text)
{
    plm_pool_settings settings = plm__pool_settings_default();
    assert_ok(plm__torch_settings_parse(text, &settings));
    return settings;
}

static void requests_round_to_512_bytes(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{0, 512},
                                      {1, 512},
                                      {511, 512},
                                      {512, 512},
                                      {513, 1024},
                                      {1200, 1536},
                                      {MIB, MIB},
                                      {MIB - 511, MIB},
                                      {MIB + 1, MIB + 512},
                                      {10485759, 10485760},
                                      {100 * GIB + 1, 100 * GIB + 512}};
    plm_pool_settings settings = plm__pool_settings_default();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(plm__pool_round_bytes(&settings, cases[i][0]), cases[i][1]);
}

static void segments_are_2_20_or_a_multiple_of_2_mib(void **state)
{
    (void)state;
    static const size_t cases[][2] = {{512, 2 * MIB},
                                      {MIB, 2 * MIB},
                                      {MIB + 512, 20 * MIB},
                                      {10 * MIB - 512, 20 * MIB},
                                      {10 * MIB, 10 * MIB},
                                      {10 * MIB + 512, 12 * MIB},
                                      {20 * MIB, 20 * MIB},
                                      {18 * MIB + 512, 20 * MIB},
                                      {GIB + 512, GIB + 2 * MIB}};
    plm_pool_settings settings = plm__pool_settings_default();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(plm__pool_segment_bytes(&settings, cases[i][0]), cases[i][1]);
    /* One byte less than 10 MiB rounds to 10 MiB first, so its segment is 10 MiB too. */
    size_t rounded = plm__pool_round_bytes(&settings, 10485759);
    assert_int_equal(plm__pool_segment_bytes(&settings, rounded), 10485760);
}

static void a_larger_large_segment_holds_every_medium_request(void **state)
{
    (void)state;
    plm_pool_settings settings = parsed("large_segment_size_mb:40");
    assert_int_equal(plm__pool_segment_bytes(&settings, 2 * MIB), 40 * MIB);
    assert_int_equal(plm__pool_segment_bytes(&settings, 10 * MIB), 10 * MIB);
}

static void divisions_round_between_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes, rounded;
    } cases[] = {
        {"roundup_power2_divisions:8", 300 * MIB + 1, 320 * MIB},
        {"roundup_power2_divisions:8", 256 * MIB, 256 * MIB},
        {"roundup_power2_divisions:8", 256 * MIB + 1, 288 * MIB},
        {"roundup_power2_divisions:8", 511 * MIB, 512 * MIB},
        {"roundup_power2_divisions:4", 1200, 1536}, /* not over 512 x 4: the plain rule */
        {"roundup_power2_divisions:4", 2048, 2048},
        {"roundup_power2_divisions:4", 2049, 2560},
        {"roundup_power2_divisions:1", 300 * MIB + 1, 300 * MIB + 512},
        {"roundup_power2_divisions:[1:4,>:1]", 5 * 512 + 1, 3072}, /* below 1 MiB: interval 0 */
        {"roundup_power2_divisions:[16384:1,>:2]", 65 * GIB, 96 * GIB}, /* above: the last */
        {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 200 * MIB + 1, 200 * MIB + 512},
        {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 513 * MIB, 768 * MIB},
        {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 1025 * MIB, 1280 * MIB},
        {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", 2049 * MIB, 2304 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_pool_settings settings = parsed(cases[i].text);
        assert_int_equal(plm__pool_round_bytes(&settings, cases[i].bytes), cases[i].rounded);
    }
}

static void a_list_fills_below_its_first_and_above_its_last_key(void **state)
{
    (void)state;
    plm_pool_settings settings = parsed("roundup_power2_divisions:[4:2,16:8,>:4]");
    static const uint32_t wanted[PLM_POOL_INTERVALS] = {2, 2, 2, 0, 8, 4, 4, 4,
                                                        4, 4, 4, 4, 4, 4, 4, 4};
    assert_memory_equal(settings.divisions, wanted, sizeof wanted);
    settings = parsed("roundup_power2_divisions:[131072:2]"); /* beyond 32 GiB: the last interval */
    assert_int_equal(settings.divisions[0], 2);
    assert_int_equal(settings.divisions[15], 2);
}

static void every_key_is_read(void **state)
{
    (void)state;
    plm_pool_settings settings =
        parsed(" backend : cudaMallocAsync, max_split_size_mb:128,max_non_split_rounding_mb:32,"
               "garbage_collection_threshold:0.8,expandable_segments:True,"
               "expandable_segments_page_size:4194304,large_segment_size_mb:12,"
               "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,"
               "release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,"
               "pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
               "pinned_use_background_threads:True");
    assert_int_equal(settings.backend, PLM_POOL_BACKEND_ASYNC);
    assert_int_equal(settings.max_split_bytes, 128 * MIB);
    assert_int_equal(settings.max_non_split_bytes, 32 * MIB);
    assert_true(settings.garbage_threshold == 0.8);
    assert_true(settings.memory_fraction == 0.5);
    assert_int_equal(settings.expandable_page_bytes, 4 * MIB);
    assert_int_equal(settings.large_segment_bytes, 12 * MIB);
    assert_int_equal(settings.pinned_register_threads, 8);
    assert_true(settings.expandable_segments && settings.throw_on_driver_oom &&
                settings.release_lock_on_malloc && settings.graph_capture_record_stream_reuse &&
                settings.pinned_use_host_register && settings.pinned_use_background_threads);
}

static void reading_resets_what_pytorch_resets_and_keeps_the_rest(void **state)
{
    (void)state;
    plm_pool_settings settings =
        parsed("max_split_size_mb:128,garbage_collection_threshold:0.8,roundup_power2_divisions:4,"
               "large_segment_size_mb:40,expandable_segments:True");
    assert_ok(plm__torch_settings_parse("", &settings));
    assert_int_equal(settings.max_split_bytes, SIZE_MAX);
    assert_true(settings.garbage_threshold == 0.0);
    assert_int_equal(settings.divisions[3], 0);
    assert_int_equal(settings.large_segment_bytes, 40 * MIB);
    assert_true(settings.expandable_segments);
}

static void a_bad_setting_is_named_in_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"max_split_size:128", "'max_split_size'"},
        {"max_split_size_mb:19", "max_split_size_mb"},
        {"max_split_size_mb:-1", "max_split_size_mb"},
        {"max_split_size_mb:", "max_split_size_mb"},
        {"max_split_size_mb", "max_split_size_mb"},
        {"max_split_size_mb:99999999999999999999", "max_split_size_mb"},
        {"max_non_split_rounding_mb:4", "max_non_split_rounding_mb"},
        {"garbage_collection_threshold:1.0", "garbage_collection_threshold"},
        {"garbage_collection_threshold:0", "garbage_collection_threshold"},
        {"garbage_collection_threshold:-0.1", "garbage_collection_threshold"},
        {"garbage_collection_threshold:nan", "garbage_collection_threshold"},
        {"expandable_segments:true", "expandable_segments"},
        {"expandable_segments:True expandable_segments:True", "expandable_segments"},
        {"roundup_power2_divisions:3", "roundup_power2_divisions"},
        {"roundup_power2_divisions:[256:3]", "roundup_power2_divisions"},
        {"roundup_power2_divisions:[255:2]", "roundup_power2_divisions"},
        {"roundup_power2_divisions:[256:2", "roundup_power2_divisions"},
        {"roundup_power2_divisions:[256:2,", "roundup_power2_divisions"},
        {"large_segment_size_mb:10", "large_segment_size_mb"},
        {"per_process_memory_fraction:1.5", "per_process_memory_fraction"},
        {"pinned_num_register_threads:3", "pinned_num_register_threads"},
        {"pinned_num_register_threads:256", "pinned_num_register_threads"},
        {"backend:jemalloc", "backend"},
        {":", "':'"},
        {"expandable_segments:True]", "between two items"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_pool_settings settings = plm__pool_settings_default(), before = settings;
        assert_int_not_equal(plm__torch_settings_parse(cases[i].text, &settings), PLM_OK);
        assert_memory_equal(&settings, &before, sizeof before);
        plm_error error;
        plm_error_get(&error);
        if (!strstr(error.message, cases[i].named) || strchr(error.message, '\n')) {
            print_error("%s: %s\n", cases[i].text, error.message);
            fail();
        }
    }
}

static void a_word_without_end_is_refused(void **state)
{
    (void)state;
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    plm_pool_settings settings = plm__pool_settings_default();
    assert_int_equal(plm__torch_settings_parse(text, &settings), PLM_ERROR_FORMAT);
}

static void printing_is_canonical(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"expandable_segments:False, backend:native", ""},
        {"expandable_segments:True,max_split_size_mb:128",
         "max_split_size_mb:128,expandable_segments:True"},
        {"roundup_power2_divisions:[256:4,>:4]", "roundup_power2_divisions:4"},
        {"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
         "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
        {"roundup_power2_divisions:[16384:1,>:2]", "roundup_power2_divisions:[16384:1,>:2]"},
        {"garbage_collection_threshold:0.5,pinned_num_register_threads:8",
         "garbage_collection_threshold:0.5,pinned_num_register_threads:8"},
        {"roundup_power2_divisions:[4:2,16:8]", "roundup_power2_divisions:[4:2,8:0,16:8,>:0]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_pool_settings settings = parsed(cases[i][0]);
        plm_text text = {0};
        plm__torch_settings_print(&settings, &text);
        assert_ok(plm__text_status(&text));
        assert_string_equal(text.items ? text.items : "", cases[i][1]);
        plm_pool_settings again = parsed(text.items ? text.items : "");
        plm_text repeated = {0};
        plm__torch_settings_print(&again, &repeated);
        assert_string_equal(repeated.items ? repeated.items : "", cases[i][1]);
        plm__text_fini(&repeated);
        plm__text_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_round_to_512_bytes),
        cmocka_unit_test(segments_are_2_20_or_a_multiple_of_2_mib),
        cmocka_unit_test(a_larger_large_segment_holds_every_medium_request),
        cmocka_unit_test(divisions_round_between_powers_of_two),
        cmocka_unit_test(a_list_fills_below_its_first_and_above_its_last_key),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(reading_resets_what_pytorch_resets_and_keeps_the_rest),
        cmocka_unit_test(a_bad_setting_is_named_in_one_line),
        cmocka_unit_test(a_word_without_end_is_refused),
        cmocka_unit_test(printing_is_canonical),
    };
    return run_test_group(tests);
}
