/* SPDX-License-Identifier: MIT */
/* The environment in which a command records itself. What it then records: tests/python. */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "plimsoll/record.h"

enum { ALLOCATIONS_MAX = 50 };

static char folder[256];

static int make_place(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/plimsoll-record-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_place(void **state)
{
    (void)state;
    static const char *const names[] = {"/a/b/python/plimsoll_record.py",
                                        "/a/b/python/sitecustomize.py",
                                        "/a/b/python",
                                        "/a/b",
                                        "/a:b/python/plimsoll_record.py",
                                        "/a:b/python/sitecustomize.py",
                                        "/a:b/python",
                                        "/a:b",
                                        "/a",
                                        ""};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s%s", folder, names[i]);
        remove(path);
    }
    return access(folder, F_OK) == 0 ? -1 : 0;
}

static plm_record_settings settings_in(char out[512], const char *name)
{
    snprintf(out, 512, "%s/%s", folder, name);
    return (plm_record_settings){.out = out, .entries = 7, .stacks = "python", .signal = "none"};
}

/* The value of a variable; NULL when it is not there or there twice. */
static const char *value_of(char *const *environment, const char *name)
{
    const char *found = NULL;
    size_t length = strlen(name);
    for (char *const *item = environment; *item; item++)
        if (strncmp(*item, name, length) == 0 && (*item)[length] == '=') {
            if (found)
                return NULL;
            found = *item + length + 1;
        }
    return found;
}

static void the_command_finds_the_recorder_first_and_keeps_its_own_environment(void **state)
{
    (void)state;
    char out[512], want[600], **prepared = NULL;
    char home[] = "HOME=/h", path[] = "PYTHONPATH=/x:/y", odd[] = "ODD";
    char outer[] = "PLIMSOLL_RECORD_AT_STEP=9";
    char *const environment[] = {home, path, outer, odd, NULL};
    plm_record_settings settings = settings_in(out, "a/b");
    assert_ok(plm_record_prepare(&settings, environment, &prepared));
    snprintf(want, sizeof want, "%s/python:/x:/y", out);
    assert_string_equal(value_of(prepared, "PYTHONPATH"), want);
    assert_string_equal(value_of(prepared, "HOME"), "/h");
    assert_string_equal(prepared[1], "ODD");
    assert_string_equal(value_of(prepared, "PLIMSOLL_RECORD_OUT"), out);
    assert_string_equal(value_of(prepared, "PLIMSOLL_RECORD_ENTRIES"), "7");
    assert_null(value_of(prepared, "PLIMSOLL_RECORD_AT_STEP")); /* an outer recording's */
    assert_null(value_of(prepared, "PLIMSOLL_RECORD_ON_EXIT"));
    assert_int_equal(atol(value_of(prepared, "PLIMSOLL_RECORD_PID")), getpid());
    plm_free(prepared);

    settings.at_step = 3;
    settings.on_exit = true;
    char *const nothing[] = {NULL};
    assert_ok(plm_record_prepare(&settings, nothing, &prepared));
    snprintf(want, sizeof want, "%s/python", out);
    assert_string_equal(value_of(prepared, "PYTHONPATH"), want);
    assert_string_equal(value_of(prepared, "PLIMSOLL_RECORD_AT_STEP"), "3");
    assert_string_equal(value_of(prepared, "PLIMSOLL_RECORD_ON_EXIT"), "1");
    plm_free(prepared);
}

static void the_recorder_is_written_as_it_stands_in_the_sources(void **state)
{
    (void)state;
    char out[512], path[600], **prepared = NULL;
    char *const nothing[] = {NULL};
    plm_record_settings settings = settings_in(out, "a/b");
    assert_ok(plm_record_prepare(&settings, nothing, &prepared));
    plm_free(prepared);
    plm_file written, source;
    snprintf(path, sizeof path, "%s/python/plimsoll_record.py", out);
    assert_ok(plm__file_map(path, &written));
    assert_ok(plm__file_map(PLM_SOURCE_DIR "/python/plimsoll_record.py", &source));
    assert_int_equal(written.byte_count, source.byte_count);
    assert_memory_equal(written.bytes, source.bytes, source.byte_count);
    plm__file_unmap(&written);
    plm__file_unmap(&source);
}

static void a_folder_that_cannot_serve_is_refused_with_its_name(void **state)
{
    (void)state;
    char *const nothing[] = {NULL};
    char out[512], path[600], **prepared = NULL;
    plm_error error;
    plm_record_settings settings = settings_in(out, "a:b"); /* PYTHONPATH would cut it in two */
    assert_int_equal(plm_record_prepare(&settings, nothing, &prepared), PLM_ERROR_ARGUMENT);
    settings = settings_in(out, "a/b");
    snprintf(path, sizeof path, "%s/a", folder);
    int descriptor = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(plm_record_prepare(&settings, nothing, &prepared), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, path));
    settings.out = "";
    assert_int_equal(plm_record_prepare(&settings, nothing, &prepared), PLM_ERROR_ARGUMENT);
    assert_null(prepared);
}

static void a_failed_allocation_leaves_nothing(void **state)
{
    (void)state;
    char path[] = "PYTHONPATH=/x";
    char *const environment[] = {path, NULL};
    for (int persistent = 0; persistent <= 1; persistent++) {
        int64_t n = 1;
        for (bool fired = true; fired; n++) {
            assert_true(n < ALLOCATIONS_MAX);
            char out[512], **prepared = NULL;
            plm_record_settings settings = settings_in(out, "a/b");
            plm__host_fail_at(n, persistent);
            plm_status status = plm_record_prepare(&settings, environment, &prepared);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_true(fired == !prepared);
            plm_free(prepared);
        }
        assert_true(n > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_command_finds_the_recorder_first_and_keeps_its_own_environment, make_place,
            remove_place),
        cmocka_unit_test_setup_teardown(the_recorder_is_written_as_it_stands_in_the_sources,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_serve_is_refused_with_its_name,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_failed_allocation_leaves_nothing, make_place,
                                        remove_place),
    };
    return run_test_group(tests);
}
