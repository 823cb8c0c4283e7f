/* SPDX-License-Identifier: MIT */
/* Reports of PyTorch's memory: in any width, and when host memory runs out. */
#include "plimsoll/report_torch.h"

#include "report/table.h"
#include "unit/torch.h"

#define RECORDINGS PLM_SOURCE_DIR "/tests/data/recordings/"

typedef struct two_ranks {
    plm_snapshot *snapshots[2];
    plm_findings *findings[2];
    plm_rank ranks[2];
} two_ranks;

static two_ranks read_ranks(const char *first, const char *second)
{
    two_ranks both = {.ranks = {{.name = "first", .rank = 0}, {.name = "second", .rank = 1}}};
    const char *const paths[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        assert_ok(plm_snapshot_read(paths[i], &both.snapshots[i]));
        assert_ok(find_in(both.snapshots[i], (plm_findings_options){0}, &both.findings[i]));
        both.ranks[i].findings = both.findings[i];
    }
    return both;
}

static void end(two_ranks *both)
{
    for (int i = 0; i < 2; i++) {
        plm_findings_destroy(both->findings[i]);
        plm_snapshot_destroy(both->snapshots[i]);
    }
}

static void one_snapshot_twice_has_no_odd_rank_and_no_difference(void **state)
{
    (void)state;
    two_ranks both = read_ranks(SNAPSHOTS "cat_spike.pickle.xz", SNAPSHOTS "cat_spike.pickle.xz");
    char *text = NULL;
    assert_ok(plm_report_snapshot_text(both.ranks, 2, (plm_report_style){0}, &text));
    assert_non_null(strstr(text, "The ranks agree"));
    plm_free(text);
    assert_ok(plm_report_difference_json(&both.ranks[0], &both.ranks[1], &text));
    assert_non_null(strstr(text, "\"sites\":[]"));
    plm_free(text);
    end(&both);
}

static void running_text_keeps_to_the_width(void **state)
{
    (void)state;
    two_ranks both = read_ranks(SNAPSHOTS "fragmented_cap2g_700m_request.pickle.xz",
                                SNAPSHOTS "gpt350m_amp_b4_t2048_cap12g.pickle.xz");
    static const int32_t widths[] = {0, 80, 100, 160};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int rank = 0; rank < 2; rank++) {
            char *text = NULL;
            int32_t most = widths[i] ? widths[i] : PLM_REPORT_COLUMNS_DEFAULT;
            assert_ok(plm_report_snapshot_text(&both.ranks[rank], 1,
                                               (plm_report_style){.columns = widths[i]}, &text));
            for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
                if (plm__text_cells(line, (int64_t)strlen(line)) > most)
                    fail_msg("wider than %d: %s", most, line);
            plm_free(text);
        }
    end(&both);
}

/* Each way of telling the two ranks. */
static plm_status tell(const two_ranks *both, int which, char **text)
{
    switch (which) {
    case 0:
        return plm_report_snapshot_text(both->ranks, 2, (plm_report_style){.colour = true}, text);
    case 1:
        return plm_report_snapshot_json(both->ranks, 2, text);
    case 2:
        return plm_report_difference_text(&both->ranks[0], &both->ranks[1], (plm_report_style){0},
                                          text);
    default:
        return plm_report_difference_json(&both->ranks[0], &both->ranks[1], text);
    }
}

static void reports_without_host_memory_fail_cleanly(void **state)
{
    (void)state;
    two_ranks both = read_ranks(SNAPSHOTS "fragmented_cap2g_700m_request.pickle.xz",
                                SNAPSHOTS "pending_free_two_streams.pickle.xz");
    for (int which = 0; which < 4; which++)
        for (int64_t n = 1;; n++) {
            char *text = NULL;
            plm__host_fail_at(n, n % 2 == 0);
            plm_status status = tell(&both, which, &text);
            bool fired = plm__host_fail_at(0, false);
            plm_free(text);
            if (!fired) {
                assert_ok(status);
                break;
            }
            assert_true(status == PLM_ERROR_HOST_MEMORY || status == PLM_OK);
        }
    end(&both);
}

static void a_profile_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    static const char path[] = RECORDINGS "profiler_memory.json.xz";
    for (int64_t n = 1;; n = n < 40 ? n + 1 : n * 3) {
        plm_torch_profile *profile = NULL;
        plm__host_fail_at(n, true);
        plm_status status = plm_torch_profile_read(path, &profile);
        bool fired = plm__host_fail_at(0, false);
        plm_torch_profile_destroy(profile);
        if (!fired) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, PLM_ERROR_HOST_MEMORY);
        assert_null(profile);
    }
}

static void operations_own_what_is_allocated_inside_them(void **state)
{
    (void)state;
    char path[] = "/tmp/plimsoll-profile-XXXXXX";
    static const char text[] =
        "{\"traceEvents\": ["
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"outer\", \"tid\": 7, \"ts\": 10, "
        "\"dur\": 10},"
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"inner\", \"tid\": 7, \"ts\": 12, "
        "\"dur\": 4},"
        "{\"name\": \"[memory]\", \"cat\": \"cpu_instant_event\", \"tid\": 7, \"ts\": 13, "
        "\"args\": "
        "{\"Bytes\": 512, \"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, "
        "\"Total Allocated\": 1536, \"Total Reserved\": 4096}},"
        "{\"name\": \"[memory]\", \"cat\": \"cpu_instant_event\", \"tid\": 8, \"ts\": 14, "
        "\"args\": "
        "{\"Bytes\": -1024, \"Device Type\": 1, \"Device Id\": 0, \"Addr\": 8192, "
        "\"Total Allocated\": 512, \"Total Reserved\": 4096}}]}";
    plm_torch_profile *profile = NULL;
    plm_torch_file kind;
    int64_t count, owner_count;
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_ok(plm_torch_file_kind(path, &kind));
    assert_int_equal(kind, PLM_TORCH_PROFILE);
    assert_ok(plm_torch_profile_read(path, &profile));
    unlink(path);
    const plm_event *events = plm_trace_events(profile->trace, &count);
    const plm_owner *owners = plm_trace_owners(profile->trace, &owner_count);
    assert_int_equal(count, 1);
    assert_string_equal(plm_trace_text(profile->trace, owners[events[0].owner].op), "outer");
    assert_int_equal(profile->older_frees, 1);
    assert_int_equal(profile->allocated_peak_bytes, 1536);
    assert_int_equal(profile->traced_peak_bytes, 512);
    plm_torch_profile_destroy(profile);
}

/* The kind of a file that says `word` so that it ends behind byte `end`. */
static plm_torch_file kind_of(const char *word, size_t end)
{
    char path[] = "/tmp/plimsoll-kind-XXXXXX";
    char text[8192];
    plm_torch_file kind;
    int file = mkstemp(path);
    assert_true(file >= 0);
    memset(text, ' ', sizeof text);
    text[0] = '{';
    memcpy(text + end - strlen(word), word, strlen(word));
    assert_int_equal(write(file, text, sizeof text), sizeof text);
    close(file);
    assert_ok(plm_torch_file_kind(path, &kind));
    unlink(path);
    return kind;
}

static void what_a_file_is_stands_in_its_first_4096_bytes(void **state)
{
    (void)state;
    assert_int_equal(kind_of("\"traceEvents\"", 4096), PLM_TORCH_PROFILE);
    assert_int_equal(kind_of("\"traceEvents\"", 4097), PLM_TORCH_SNAPSHOT);
    assert_int_equal(kind_of("\"allocated_bytes", 4096), PLM_TORCH_STATS);
    assert_int_equal(kind_of("\"allocated_bytes", 4097), PLM_TORCH_SNAPSHOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_snapshot_twice_has_no_odd_rank_and_no_difference),
        cmocka_unit_test(running_text_keeps_to_the_width),
        cmocka_unit_test(reports_without_host_memory_fail_cleanly),
        cmocka_unit_test(a_profile_is_read_whole_or_not_at_all),
        cmocka_unit_test(what_a_file_is_stands_in_its_first_4096_bytes),
        cmocka_unit_test(operations_own_what_is_allocated_inside_them),
    };
    return run_test_group(tests);
}
