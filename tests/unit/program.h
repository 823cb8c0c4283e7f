/* SPDX-License-Identifier: MIT */
/* Running the program as a user does, for tests that look at it from outside. */
#ifndef PLM_TEST_PROGRAM_H
#define PLM_TEST_PROGRAM_H

#include <sys/wait.h>

#include "base/json.h"
#include "unit/test.h"

enum { OUTPUT_BYTES = 1 << 18 };

/* What a run's redirection leads into the pipe. */
static const char to_output[] = "2>/dev/null";
static const char to_error[] = "2>&1 >/dev/null";

/* Runs the program through the shell; `output` becomes what it wrote to the streams that
 * `redirection` leads into the pipe. Returns the exit status. */
static inline int run_program(const char *arguments, const char *redirection,
                              char output[OUTPUT_BYTES])
{
    char line[1024];
    snprintf(line, sizeof line, "'%s' %s %s", PLM_PROGRAM, arguments, redirection);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t count = fread(output, 1, OUTPUT_BYTES - 1, pipe);
    output[count] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The answer of "plimsoll COMMAND ARGUMENTS --json", one line, which comes with this exit status.
 */
static inline json_t *run_json(const char *command, const char *arguments, int wanted_status)
{
    static char output[OUTPUT_BYTES];
    char line[700];
    json_t *root = NULL;
    snprintf(line, sizeof line, "%s %s --json", command, arguments);
    assert_int_equal(run_program(line, to_output, output), wanted_status);
    assert_non_null(strchr(output, '\n'));
    assert_string_equal(strchr(output, '\n'), "\n");
    assert_ok(plm__json_read(command, output, strlen(output), &root));
    return root;
}

static inline json_int_t json_number(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

/* Fails unless the program refuses this with exit status 2 and one line that holds `told`. */
static inline void assert_refused(const char *command, const char *arguments, const char *told)
{
    static char output[OUTPUT_BYTES];
    char line[768];
    snprintf(line, sizeof line, "%s %s", command, arguments);
    int status = run_program(line, to_error, output);
    if (status != 2 || !strstr(output, told) || strchr(output, '\n') != strrchr(output, '\n'))
        fail_msg("%s: status %d, %s", line, status, output);
}

#endif
