/* SPDX-License-Identifier: MIT */
/*
 * The operating system's word on a whole run, in a process of its own: the resident memory of
 * `plimsoll train` grows from just before planning by no more than the predicted peak and 64 MiB,
 * and by no less than most of it, so that the figure is one of this run.
 */
#include "unit/program.h"

#include "base/json.h"
#include "base/track.h"
#include "unit/scratch.h"

enum { ALLOWED_BYTES = 64 << 20 };

static void the_resident_memory_of_a_run_grows_by_what_was_predicted(void **state)
{
    (void)state;
    static char output[OUTPUT_BYTES];
    char folder[SCRATCH_BYTES], text[SCRATCH_BYTES + 8], arguments[512];
    json_t *summary = NULL;
    if (PLM_TRACK || PLM_CHECK) /* memory of the detectors' own */
        skip();
    assert_true(scratch_folder(folder));
    snprintf(text, sizeof text, "%s/text", folder);
    FILE *file = fopen(text, "wb");
    assert_non_null(file);
    for (int i = 0; i < 20000; i++)
        fputc("the line on the hull shows how deep\n"[i % 36], file);
    assert_int_equal(fclose(file), 0);
    snprintf(arguments, sizeof arguments,
             "train gpt:layers=2,width=256,heads=4,context=256,vocab=256 --data %s --batch 8 "
             "--budget 1GiB --steps 2 --threads 2 --eval-sequences 2 --json",
             text);
    assert_int_equal(run_program(arguments, to_output, output), 0);
    output[strlen(output) - 1] = '\0'; /* the last line */
    const char *line = strrchr(output, '\n');
    assert_non_null(line);
    assert_ok(plm__json_read("the summary", line, strlen(line), &summary));
    size_t predicted = (size_t)json_integer_value(json_object_get(summary, "predicted_peak_bytes"));
    size_t growth = (size_t)json_integer_value(json_object_get(summary, "resident_growth_bytes"));
    print_message("predicted %zu kB, resident memory grew by %zu kB\n", predicted >> 10,
                  growth >> 10);
    assert_true(predicted > (size_t)ALLOWED_BYTES);
    assert_true(growth <= predicted + ALLOWED_BYTES);
    assert_true(growth >= predicted / 10 * 9);
    json_decref(summary);
    unlink(text);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_resident_memory_of_a_run_grows_by_what_was_predicted)};
    return run_test_group(tests);
}
