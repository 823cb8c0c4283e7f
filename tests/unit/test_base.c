/* SPDX-License-Identifier: MIT */
/* base: sizes, statuses, the host allocator that can fail, Philox, text, JSON, files. */
#include "unit/test.h"

#include <errno.h>

#include "base/file.h"
#include "base/file_calls.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/size.h"
#include "base/text.h"
#include "base/utf8.h"
#include "plimsoll/dtype.h"
#include "base/dtype.h"

static void sizes_are_read_with_binary_and_decimal_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {{"4096B", 4096},        {"512MiB", (size_t)512 << 20}, {"12GiB", (size_t)12 << 30},
                 {"12GB", 12000000000u}, {"1.5 GiB", (size_t)3 << 29},  {"3k", 3072}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 0;
        assert_ok(plm_size_parse(cases[i].text, &bytes));
        assert_int_equal(bytes, cases[i].bytes);
    }
}

static void a_number_without_a_unit_is_bytes_from_a_mebibyte_on(void **state)
{
    (void)state;
    size_t bytes = 77;
    assert_int_equal(plm_size_parse("1048575", &bytes), PLM_ERROR_ARGUMENT);
    assert_int_equal(bytes, 77);
    plm_error error;
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "unit"));
    assert_ok(plm_size_parse("1048576", &bytes));
    assert_int_equal(bytes, 1048576);
    assert_ok(plm_size_parse("1048575B", &bytes));
    assert_int_equal(bytes, 1048575);
}

static void malformed_sizes_are_refused_and_leave_the_result_alone(void **state)
{
    (void)state;
    static const char *const cases[] = {"",    "-1",   "0",    "GiB", "12XB", "1e999", "nan",
                                        "inf", "0x10", "9e30", "+5",  " 5",   "5MiB!"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 77;
        assert_int_not_equal(plm_size_parse(cases[i], &bytes), PLM_OK);
        assert_int_equal(bytes, 77);
        plm_error error;
        plm_error_get(&error);
        assert_non_null(strstr(error.message, "size"));
    }
}

static void sizes_are_written_in_gib_and_mib(void **state)
{
    (void)state;
    char text[PLM_SIZE_TEXT];
    assert_string_equal(plm_size_format(640, text), "640 B");
    assert_string_equal(plm_size_format((size_t)384 << 20, text), "384.0 MiB");
    assert_string_equal(plm_size_format((size_t)3 << 29, text), "1.50 GiB");
}

static void products_and_sums_that_do_not_fit_are_statuses(void **state)
{
    (void)state;
    size_t bytes = 5;
    assert_int_equal(plm__mul_bytes(SIZE_MAX / 2, 3, &bytes), PLM_ERROR_OVERFLOW);
    assert_int_equal(plm__add_bytes(SIZE_MAX, 1, &bytes), PLM_ERROR_OVERFLOW);
    assert_int_equal(plm__round_up_bytes(SIZE_MAX - 3, 64, &bytes), PLM_ERROR_OVERFLOW);
    assert_int_equal(bytes, 5);
    assert_ok(plm__round_up_bytes(65, 64, &bytes));
    assert_int_equal(bytes, 128);
}

static void the_nth_host_allocation_fails_once_or_for_good(void **state)
{
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        plm__host_fail_at(2, persistent);
        void *first = NULL, *second = NULL, *third = NULL;
        assert_ok(plm__host_alloc(16, &first));
        assert_int_equal(plm__host_alloc(16, &second), PLM_ERROR_HOST_MEMORY);
        assert_null(second);
        assert_int_equal(plm__host_alloc(16, &third), persistent ? PLM_ERROR_HOST_MEMORY : PLM_OK);
        assert_true(plm__host_fail_at(0, false));
        plm__host_free(first);
        plm__host_free(third);
    }
}

static void growing_a_block_keeps_its_bytes_and_zeroes_the_rest(void **state)
{
    (void)state;
    char *block = NULL;
    assert_ok(plm__host_alloc(3, &block));
    memcpy(block, "abc", 3);
    assert_ok(plm__host_realloc(4096, &block));
    assert_memory_equal(block, "abc\0\0", 5);
    assert_int_equal(block[4095], 0);
    plm__host_free(block);
}

/* Known answers published with the reference implementation of Random123. */
static void philox_gives_the_published_numbers(void **state)
{
    (void)state;
    plm_philox zeros = plm__philox_at(0, 0, 0, 0);
    static const uint32_t of_zeros[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    assert_memory_equal(zeros.word, of_zeros, sizeof of_zeros);
    plm_philox ones = plm__philox_at(UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX);
    static const uint32_t of_ones[4] = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
    assert_memory_equal(ones.word, of_ones, sizeof of_ones);
}

static void a_text_sticks_to_its_first_failure(void **state)
{
    (void)state;
    plm_text text = {0};
    plm__text_add(&text, "%d,", 12);
    plm__host_fail_at(1, true);
    plm__text_repeat(&text, "x", 1000);
    plm__host_fail_at(0, false);
    plm__text_add(&text, "y");
    assert_int_equal(plm__text_status(&text), PLM_ERROR_HOST_MEMORY);
    assert_int_equal(strncmp(text.items, "12,", 3), 0);
    assert_null(strchr(text.items, 'y'));
    plm__text_fini(&text);
}

static plm_status write_sample(char **line)
{
    plm_json_writer writer = {0};
    plm__json_begin_object(&writer, NULL);
    plm__json_bytes(&writer, "peak_bytes", 4096);
    plm__json_begin_array(&writer, "live");
    plm__json_text(&writer, NULL, "a \"quoted\" name");
    plm__json_real(&writer, NULL, 0.0 / 0.0);
    plm__json_end(&writer);
    plm__json_bool(&writer, "fits", true);
    plm__json_end(&writer);
    return plm__json_finish(&writer, line);
}

static void json_is_written_on_one_line(void **state)
{
    (void)state;
    char *line = NULL;
    assert_ok(write_sample(&line));
    assert_string_equal(
        line, "{\"peak_bytes\":4096,\"live\":[\"a \\\"quoted\\\" name\",null],\"fits\":true}");
    plm__host_free(line);
}

static void objects_and_arrays_that_are_open_at_the_finish_are_ended(void **state)
{
    (void)state;
    plm_json_writer writer = {0};
    char *line = NULL;
    plm__json_begin_object(&writer, NULL);
    plm__json_begin_array(&writer, "live");
    plm__json_begin_object(&writer, NULL);
    plm__json_int(&writer, "blocks", 2);
    assert_ok(plm__json_finish(&writer, &line));
    assert_string_equal(line, "{\"live\":[{\"blocks\":2}]}");
    plm__host_free(line);
}

static void json_writing_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    int64_t live = plm__host_stats_get().live_count;
    for (int64_t n = 1;; n++) {
        char *line = NULL;
        plm__host_fail_at(n, false);
        plm_status status = write_sample(&line);
        bool fired = plm__host_fail_at(0, false);
        plm__host_free(line);
        assert_int_equal(plm__host_stats_get().live_count, live);
        if (!fired)
            break;
        /* jansson gives up a smaller buffer without failing the whole: either answer is whole */
        assert_true(status == PLM_ERROR_HOST_MEMORY || status == PLM_OK);
    }
}

static void a_text_or_key_that_is_no_utf8_is_written_with_u_fffd(void **state)
{
    (void)state;
    plm_json_writer writer = {0};
    char *line = NULL;
    plm__json_begin_object(&writer, NULL);
    plm__json_text(&writer, "name \xe9", "caf\xe9, caf\xc3\xa9, \xed\xa0\x80");
    plm__json_end(&writer);
    assert_ok(plm__json_finish(&writer, &line));
    assert_string_equal(line, "{\"name \xef\xbf\xbd\":\"caf\xef\xbf\xbd, caf\xc3\xa9, "
                              "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}");
    plm__host_free(line);
}

static void utf8_is_the_shortest_forms_up_to_10ffff_without_surrogates(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int length;
        uint32_t point;
    } cases[] = {{"A", 1, 'A'},
                 {"\x7f", 1, 0x7f},
                 {"\xc2\x80", 2, 0x80},
                 {"\xdf\xbf", 2, 0x7ff},
                 {"\xe0\xa0\x80", 3, 0x800},
                 {"\xed\x9f\xbf", 3, 0xd7ff},
                 {"\xee\x80\x80", 3, 0xe000},
                 {"\xf0\x90\x80\x80", 4, 0x10000},
                 {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
                 {"\x80", 0, 0},
                 {"\xc1\xbf", 0, 0},
                 {"\xe0\x9f\xbf", 0, 0},
                 {"\xed\xa0\x80", 0, 0},
                 {"\xf0\x8f\xbf\xbf", 0, 0},
                 {"\xf4\x90\x80\x80", 0, 0},
                 {"\xf5\x80\x80\x80", 0, 0},
                 {"\xe2\x82", 0, 0},
                 {"\xe2\x82z", 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t point = 0;
        int64_t count = (int64_t)strlen(cases[i].bytes);
        assert_int_equal(plm__utf8_decode(cases[i].bytes, count, &point), cases[i].length);
        assert_int_equal(point, cases[i].point);
    }
}

static void malformed_json_names_line_and_column(void **state)
{
    (void)state;
    json_t *root = NULL;
    static const char text[] = "{\n  \"a\": 1,\n  \"a\": 2 }";
    assert_int_equal(plm__json_read("the file", text, sizeof text - 1, &root), PLM_ERROR_FORMAT);
    assert_null(root);
    plm_error error;
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "line 3"));
}

static void json_beyond_what_people_write_is_refused_unread(void **state)
{
    (void)state;
    char *text = NULL;
    json_t *root = NULL;
    assert_ok(plm__host_alloc(PLM_JSON_SMALL_MAX + 1, &text));
    memset(text, ' ', PLM_JSON_SMALL_MAX + 1);
    memcpy(text, "{}", 2);
    assert_int_equal(plm__json_read_small("the file", text, PLM_JSON_SMALL_MAX + 1, &root),
                     PLM_ERROR_FORMAT);
    assert_null(root);
    assert_ok(plm__json_read_small("the file", text, PLM_JSON_SMALL_MAX, &root));
    json_decref(root);
    plm__host_free(text);
}

static void a_file_is_written_whole_and_read_back(void **state)
{
    (void)state;
    char path[] = "/tmp/plimsoll-test-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_ok(plm__file_write(path, "hello", 5));
    plm_file file = {0};
    assert_ok(plm__file_map(path, &file));
    assert_int_equal(file.byte_count, 5);
    assert_memory_equal(file.bytes, "hello", 5);
    plm__file_unmap(&file);
    unlink(path);
    assert_int_equal(plm__file_map(path, &file), PLM_ERROR_IO);
    assert_int_equal(plm__file_map("/tmp", &file), PLM_ERROR_IO);
}

static void note_name(const char *name, void *user)
{
    if (name[0] != '.')
        strcat(user, name);
}

/* Root may rename a file over /dev/null. */
static void what_is_no_file_is_not_written_over(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-test-XXXXXX", pipe_path[64], names[64] = "";
    struct stat about;
    assert_non_null(mkdtemp(folder));
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(plm__file_write(pipe_path, "x", 1), PLM_ERROR_IO);
    assert_int_equal(plm__file_write(folder, "x", 1), PLM_ERROR_IO);
    assert_int_equal(plm__file_write("", "x", 1), PLM_ERROR_IO);
    assert_int_equal(stat(pipe_path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_ok(plm__folder_each(folder, note_name, names));
    assert_string_equal(names, "pipe");
    unlink(pipe_path);
    rmdir(folder);
}

/* Names come out of other people's files. */
static void a_message_is_one_line_whatever_it_quotes(void **state)
{
    (void)state;
    plm_error error;
    assert_int_equal(plm_fail(PLM_ERROR_ARGUMENT, "found '%s'", "a\nb\x1b[31mc\td\x7f"),
                     PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_string_equal(error.message, "found 'a?b?[31mc?d?'");
}

static void json_that_is_read_in_too_little_memory_is_never_read_wrong(void **state)
{
    (void)state;
    static const char text[] = "{\"a name that is long\": \"and a text that is longer than that\"}";
    bool fired = true;
    for (int64_t n = 1; fired; n++) {
        json_t *root = NULL;
        plm__host_fail_at(n, false);
        plm_status status = plm__json_read("the file", text, sizeof text - 1, &root);
        fired = plm__host_fail_at(0, false);
        assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
        assert_int_equal(root != NULL, !fired);
        json_decref(root);
    }
}

/* A folder with one file of three bytes, which is then replaced. */
static plm_status use_files(const char *folder, const char *path)
{
    char names[64] = "";
    plm_file file = {0};
    plm_file_reader reader = {0};
    PLM_TRY(plm__folder_make(folder));
    PLM_TRY(plm__folder_each(folder, note_name, names));
    PLM_TRY(plm__file_map(path, &file));
    plm__file_unmap(&file);
    PLM_TRY(plm__file_open(path, &reader));
    plm_status status = plm__file_read_at(&reader, 1, names, 2);
    plm__file_close(&reader);
    PLM_TRY(status);
    return plm__file_write(path, "new", 3);
}

static void a_lock_is_held_once_and_by_nobody_when_given_back(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-test-XXXXXX", path[64], holder[PLM_FILE_HOLDER_TEXT];
    plm_file_lock one = {0}, other = {0};
    struct stat about;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lock", folder);
    for (int round = 0; round < 2; round++) {
        assert_ok(plm__file_lock_take(path, holder, &one));
        assert_true(one.is_held);
        assert_int_equal(plm__file_lock_take(path, holder, &other), PLM_ERROR_STATE);
        assert_int_equal(strtol(holder + strlen("process "), NULL, 10), getpid());
        plm__file_lock_give(&other); /* holds nothing */
        plm__file_lock_give(&one);
        assert_int_not_equal(stat(path, &about), 0);
    }
    plm__file_fail_at(PLM_FILE_CALL_LOCK, 1, false); /* a file system without locks */
    assert_ok(plm__file_lock_take(path, holder, &one));
    assert_true(plm__file_fail_at(PLM_FILE_CALL_ANY, 0, false));
    assert_false(one.is_held);
    plm__file_lock_give(&one);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(plm__file_lock_take(path, holder, &one), PLM_ERROR_IO);
}

static void every_file_call_may_fail_and_leaves_a_whole_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-test-XXXXXX", path[64];
    bool seen[PLM_FILE_CALL_COUNT] = {false};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    for (int kind = 0; kind < PLM_FILE_CALL_COUNT; kind++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            char names[64] = "";
            plm_file file = {0};
            assert_ok(plm__file_write(path, "old", 3));
            plm__file_fail_at((plm_file_call)kind, n, false);
            plm_status status = use_files(folder, path);
            fired = plm__file_fail_at(PLM_FILE_CALL_ANY, 0, false);
            seen[kind] |= fired;
            assert_true(status == PLM_OK || (fired && status == PLM_ERROR_IO));
            assert_ok(plm__file_map(path, &file));
            assert_int_equal(file.byte_count, 3);
            assert_true(memcmp(file.bytes, "old", 3) == 0 || memcmp(file.bytes, "new", 3) == 0);
            plm__file_unmap(&file);
            assert_ok(plm__folder_each(folder, note_name, names));
            assert_string_equal(names, "file"); /* no temporary is left */
        }
        /* a file that is read has no use for the rest */
        if (!seen[kind] && kind != PLM_FILE_CALL_READ && kind != PLM_FILE_CALL_REMOVE &&
            kind != PLM_FILE_CALL_LOCK)
            fail_msg("'%s' never failed", plm__file_call_text((plm_file_call)kind));
    }
    unlink(path);
    rmdir(folder);
}

static void a_failed_file_call_leaves_its_errno_in_the_record(void **state)
{
    (void)state;
    static const struct {
        plm_file_call kind;
        int error;
    } cases[] = {
        {PLM_FILE_CALL_WRITE, ENOSPC}, {PLM_FILE_CALL_SYNC, EIO}, {PLM_FILE_CALL_OPEN, EMFILE}};
    plm_error error;
    plm_file file = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm__file_fail_at(cases[i].kind, 1, false);
        assert_int_equal(plm__file_write("/tmp/plimsoll-test-errno", "x", 1), PLM_ERROR_IO);
        plm__file_fail_at(PLM_FILE_CALL_ANY, 0, false);
        plm_error_get(&error);
        assert_int_equal(error.system_error, cases[i].error);
    }
    assert_int_equal(plm__file_map("/nonexistent/file", &file), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_int_equal(error.system_error, ENOENT);
    assert_int_equal(plm__file_map("/tmp", &file), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_int_equal(error.system_error, 0); /* no call failed */
}

static void dtype_sizes_are_whole_blocks(void **state)
{
    (void)state;
    size_t bytes = 0;
    assert_ok(plm__dtype_bytes(PLM_DTYPE_BF16, 3, &bytes));
    assert_int_equal(bytes, 6);
    assert_int_equal(plm__dtype_bytes(PLM_DTYPE_F32, INT64_MAX, &bytes), PLM_ERROR_OVERFLOW);
    assert_int_equal(plm__dtype_bytes(PLM_DTYPE_F32, -1, &bytes), PLM_ERROR_ARGUMENT);
}

static void a_refused_host_allocation_tells_its_figures(void **state)
{
    (void)state;
    void *block = NULL, *more = NULL;
    plm_error error;
    assert_ok(plm__host_alloc(1000, &block));
    plm__host_fail_at(1, false);
    assert_int_equal(plm__host_alloc(500, &more), PLM_ERROR_HOST_MEMORY);
    plm__host_fail_at(0, false);
    plm_error_get(&error);
    assert_int_equal(error.oom.asked_bytes, 500);
    assert_int_equal(error.oom.live_bytes, plm__host_stats_get().live_bytes);
    assert_null(more);
    plm__host_free(block);
}

static void figures_of_the_kernel_are_read_with_and_without_a_unit(void **state)
{
    (void)state;
    static const char listing[] = "MemTotal:  100 kB\nMemAvailable:       42 kB\nMemAvail: 3 kB\n"
                                  "anon 12\ninactive_file 4096\n";
    size_t figure = 7;
    assert_true(plm__memory_find_figure(listing, "MemAvailable", &figure));
    assert_int_equal(figure, 43008);
    assert_true(plm__memory_find_figure(listing, "inactive_file", &figure));
    assert_int_equal(figure, 4096);
    assert_false(plm__memory_find_figure(listing, "inactive", &figure));
    assert_false(plm__memory_find_figure("", "MemAvailable", &figure));
    assert_int_equal(figure, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_with_binary_and_decimal_units),
        cmocka_unit_test(a_number_without_a_unit_is_bytes_from_a_mebibyte_on),
        cmocka_unit_test(malformed_sizes_are_refused_and_leave_the_result_alone),
        cmocka_unit_test(sizes_are_written_in_gib_and_mib),
        cmocka_unit_test(products_and_sums_that_do_not_fit_are_statuses),
        cmocka_unit_test(the_nth_host_allocation_fails_once_or_for_good),
        cmocka_unit_test(growing_a_block_keeps_its_bytes_and_zeroes_the_rest),
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(a_text_sticks_to_its_first_failure),
        cmocka_unit_test(json_is_written_on_one_line),
        cmocka_unit_test(objects_and_arrays_that_are_open_at_the_finish_are_ended),
        cmocka_unit_test(a_text_or_key_that_is_no_utf8_is_written_with_u_fffd),
        cmocka_unit_test(utf8_is_the_shortest_forms_up_to_10ffff_without_surrogates),
        cmocka_unit_test(json_writing_survives_the_failure_of_every_allocation),
        cmocka_unit_test(malformed_json_names_line_and_column),
        cmocka_unit_test(json_beyond_what_people_write_is_refused_unread),
        cmocka_unit_test(a_file_is_written_whole_and_read_back),
        cmocka_unit_test(what_is_no_file_is_not_written_over),
        cmocka_unit_test(a_message_is_one_line_whatever_it_quotes),
        cmocka_unit_test(json_that_is_read_in_too_little_memory_is_never_read_wrong),
        cmocka_unit_test(a_lock_is_held_once_and_by_nobody_when_given_back),
        cmocka_unit_test(every_file_call_may_fail_and_leaves_a_whole_file),
        cmocka_unit_test(a_failed_file_call_leaves_its_errno_in_the_record),
        cmocka_unit_test(dtype_sizes_are_whole_blocks),
        cmocka_unit_test(a_refused_host_allocation_tells_its_figures),
        cmocka_unit_test(figures_of_the_kernel_are_read_with_and_without_a_unit),
    };
    return run_test_group(tests);
}
