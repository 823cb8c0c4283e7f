/* SPDX-License-Identifier: MIT */
/* The trace made small: bins, groups, blocks and segments against a plain recount of the trace. */
#include "test.h"

#include "base/philox.h"
#include "report/escape.h"
#include "report/packed.h"
#include "report/timeline.h"
#include "trace/trace.h"

enum { SEED = 20261129, BLOCKS = 700, SITES = 40 };

static void add(plm_trace *trace, plm_event event)
{
    assert_ok(plm__trace_add_event(trace, &event));
}

static int32_t add_owner(plm_trace *trace, const char *layer, const char *name, int32_t role)
{
    plm_owner owner = {.role = role, .dtype = -1, .frames = PLM_TRACE_NO_FRAMES};
    int32_t index;
    assert_ok(plm__trace_intern(trace, layer, &owner.layer));
    assert_ok(plm__trace_intern(trace, name, &owner.name));
    assert_ok(plm__trace_add_owner(trace, &owner, &index));
    return index;
}

static uint32_t random_word(uint32_t *state)
{
    return plm__philox_at(SEED, 0, 0, (*state)++).word[0];
}

/* Blocks of random sizes and owners come and go; every hundredth event is a mark. */
static plm_trace *random_trace(int64_t event_count)
{
    plm_trace *trace = NULL;
    plm_event live[BLOCKS];
    int64_t live_count = 0, blocks = 0;
    uint32_t state = 0;
    assert_ok(plm__trace_create(&trace));
    for (int i = 0; i < SITES; i++) {
        char layer[24], name[24];
        snprintf(layer, sizeof layer, "block.%d", i / 2);
        snprintf(name, sizeof name, "tensor.%d", i);
        add_owner(trace, layer, name, i % PLM_ROLE_COUNT);
    }
    for (int64_t i = 0; i < event_count; i++) {
        if (i % 100 == 99) {
            add(trace, (plm_event){.time = i, .kind = PLM_EVENT_MARK, .block = -1, .owner = -1});
        } else if (live_count < BLOCKS && (live_count == 0 || random_word(&state) % 2)) {
            plm_event event = {.time = i, .block = blocks++, .kind = PLM_EVENT_BLOCK_ALLOC};
            event.owner = (int32_t)(random_word(&state) % SITES);
            event.bytes_asked = 1 + random_word(&state) % 100000;
            event.bytes_taken = (event.bytes_asked + 511) / 512 * 512;
            event.address = 0x1000 + (uint64_t)event.block * 131072;
            live[live_count++] = event;
            add(trace, event);
        } else {
            int64_t place = random_word(&state) % live_count;
            plm_event event = live[place];
            live[place] = live[--live_count];
            event.kind = PLM_EVENT_BLOCK_FREE;
            event.time = i;
            add(trace, event);
        }
    }
    return trace;
}

/* What a role held right after an event, counted one by one; -1: all roles. */
static size_t recount(const plm_trace *trace, int64_t at, int32_t role)
{
    int64_t count, owner_count;
    const plm_event *events = plm_trace_events(trace, &count);
    const plm_owner *owners = plm_trace_owners(trace, &owner_count);
    size_t sum = 0;
    for (int64_t i = 0; i <= at; i++) {
        if (events[i].owner < 0 || (role >= 0 && owners[events[i].owner].role != role))
            continue;
        if (events[i].kind == PLM_EVENT_BLOCK_ALLOC)
            sum += events[i].bytes_taken;
        else if (events[i].kind == PLM_EVENT_BLOCK_FREE)
            sum -= events[i].bytes_taken;
    }
    return sum;
}

static int32_t role_of_label(const char *label)
{
    for (int role = 0; role < PLM_ROLE_COUNT; role++)
        if (strcmp(plm_role_text((plm_role)role), label) == 0)
            return role;
    return -1;
}

static void groups_of_a_bin_are_what_the_trace_held_at_its_instant(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(6000);
    plm_export_source source = {.trace = trace};
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&source, &timeline));
    const plm_grouping *roles = &timeline.groupings[PLM_GROUPING_ROLE];
    assert_true(timeline.bins.count > 100);
    assert_int_equal(roles->group_count, PLM_ROLE_COUNT);
    uint32_t random = 0;
    for (int round = 0; round < 60; round++) {
        int64_t bin = random_word(&random) % timeline.bins.count;
        int64_t event = timeline.bins.items[bin].event;
        assert_int_equal(event / timeline.bin_events, bin);
        assert_int_equal(timeline.bins.items[bin].bytes, recount(trace, event, -1));
        for (int g = 0; g < roles->group_count; g++)
            assert_int_equal(plm__timeline_group_bytes(&timeline, PLM_GROUPING_ROLE, bin, g),
                             recount(trace, event, role_of_label(plm__grouping_label(roles, g))));
    }
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void every_grouping_adds_up_to_the_whole_in_every_bin(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(5000);
    plm_export_source source = {.trace = trace};
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&source, &timeline));
    assert_true(timeline.groupings[PLM_GROUPING_NAME].has_others);
    for (int k = 0; k < PLM_GROUPING_COUNT; k++) {
        for (int64_t bin = 0; bin < timeline.bins.count; bin++) {
            size_t sum = 0;
            for (int g = 0; g < timeline.groupings[k].group_count; g++)
                sum += plm__timeline_group_bytes(&timeline, k, bin, g);
            assert_int_equal(sum, timeline.bins.items[bin].bytes);
        }
    }
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void a_bin_knows_the_most_and_the_least_of_its_events(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(3000);
    plm_export_source source = {.trace = trace};
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&source, &timeline));
    for (int64_t bin = 0; bin < timeline.bins.count; bin += 37) {
        size_t most = 0, least = SIZE_MAX;
        for (int64_t i = bin * timeline.bin_events;
             i < (bin + 1) * timeline.bin_events && i < timeline.event_count; i++) {
            size_t live = recount(trace, i, -1);
            most = live > most ? live : most;
            least = live < least ? live : least;
        }
        assert_int_equal(timeline.bins.items[bin].bytes, most);
        assert_int_equal(timeline.bins.items[bin].least, least);
    }
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void the_peak_and_its_holders_are_those_of_the_trace(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(4000);
    plm_export_source source = {.trace = trace};
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&source, &timeline));
    plm_trace_peak peak = plm_trace_find_peak(trace);
    int64_t *live = NULL, live_count;
    assert_ok(plm_trace_live_at(trace, peak.event, &live, &live_count));
    assert_int_equal(timeline.peak.event, peak.event);
    assert_int_equal(timeline.peak_blocks, live_count);
    assert_int_equal(timeline.bins.items[peak.event / timeline.bin_events].event, peak.event);
    size_t bytes = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < timeline.sites.items.count; i++) {
        bytes += timeline.sites.items.items[i].peak_bytes;
        count += timeline.sites.items.items[i].peak_count;
    }
    assert_int_equal(bytes, peak.bytes_taken);
    assert_int_equal(count, live_count);
    plm_free(live);
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void every_block_is_kept_with_its_birth_and_death(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(2500);
    plm_export_source source = {.trace = trace};
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&source, &timeline));
    assert_int_equal(timeline.smallest_kept_bytes, 0);
    assert_int_equal(timeline.blocks.count, timeline.block_count);
    int64_t living = 0;
    for (int64_t i = 0; i < timeline.blocks.count; i++) {
        const plm_timeline_block *block = &timeline.blocks.items[i];
        const plm_event *birth = &timeline.events[block->birth];
        assert_int_equal(birth->kind, PLM_EVENT_BLOCK_ALLOC);
        assert_int_equal(birth->bytes_taken, block->taken);
        living += block->death < 0;
        if (block->death >= 0)
            assert_int_equal(timeline.events[block->death].block, birth->block);
    }
    assert_int_equal(living, timeline.end_blocks);
    assert_int_equal(timeline.end_bytes, recount(trace, timeline.event_count - 1, -1));
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void add_segment(plm_trace *trace, int kind, uint64_t address, size_t bytes)
{
    add(trace, (plm_event){.kind = (uint16_t)kind,
                           .address = address,
                           .bytes_asked = bytes,
                           .bytes_taken = bytes,
                           .block = -1,
                           .owner = -1});
}

/* A segment older than the trace dies in it; an expandable one is unmapped across its pieces. */
static void segments_are_followed_backwards_from_the_final_ones(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    assert_ok(plm__trace_create(&trace));
    add_segment(trace, PLM_EVENT_SEGMENT_MAP, 1000, 100);
    add_segment(trace, PLM_EVENT_SEGMENT_FREE, 5000, 70);
    add_segment(trace, PLM_EVENT_SEGMENT_MAP, 1100, 100);
    add_segment(trace, PLM_EVENT_SEGMENT_UNMAP, 1050, 100);
    plm_export_segment last[] = {{.address = 1000, .bytes = 50, .expandable = true},
                                 {.address = 1150, .bytes = 50, .expandable = true},
                                 {.address = 9000, .bytes = 7}};
    plm_export_source source = {.trace = trace, .segments = last, .segment_count = 3};
    plm_extents extents = {0};
    assert_ok(plm__extents_init(&source, &extents));
    static const size_t sums[] = {77, 177, 107, 207, 107};
    assert_int_equal(extents.steps.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(extents.steps.items[i].event, i - 1);
        assert_int_equal(extents.steps.items[i].bytes, sums[i]);
    }
    size_t from_start = 0, at_end = 0;
    for (int64_t i = 0; i < extents.items.count; i++) {
        from_start += extents.items.items[i].birth < 0 ? extents.items.items[i].bytes : 0;
        at_end += extents.items.items[i].death < 0 ? extents.items.items[i].bytes : 0;
    }
    assert_int_equal(from_start, 77);
    assert_int_equal(at_end, 107);
    plm__extents_fini(&extents);
    source.segment_count = 0; /* and forwards: the older segment is not known */
    assert_ok(plm__extents_init(&source, &extents));
    assert_int_equal(extents.steps.items[4].bytes, 100);
    plm__extents_fini(&extents);
    plm_trace_destroy(trace);
}

static void a_trace_without_segments_lives_in_one_arena(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(300);
    plm_export_source source = {.trace = trace};
    plm_extents extents = {0};
    assert_ok(plm__extents_init(&source, &extents));
    assert_int_equal(extents.items.count, 1);
    assert_int_equal(extents.items.items[0].address, 0x1000);
    assert_int_equal(extents.steps.items[0].bytes, extents.items.items[0].bytes);
    plm__extents_fini(&extents);
    plm_trace_destroy(trace);
}

static void an_empty_trace_has_no_peak_and_no_bins(void **state)
{
    (void)state;
    plm_trace *trace = NULL;
    plm_timeline timeline = {0};
    assert_ok(plm__trace_create(&trace));
    assert_ok(plm__timeline_init(&(plm_export_source){.trace = trace}, &timeline));
    assert_int_equal(timeline.bins.count, 0);
    assert_int_equal(timeline.peak.event, -1);
    assert_int_equal(timeline.reserved_peak, 0);
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void bins_stay_within_their_maximum(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(40 * PLM_TIMELINE_BINS_MAX);
    plm_timeline timeline = {0};
    assert_ok(plm__timeline_init(&(plm_export_source){.trace = trace}, &timeline));
    assert_true(timeline.bins.count <= PLM_TIMELINE_BINS_MAX);
    assert_true(timeline.bins.count > PLM_TIMELINE_BINS_MAX / 4);
    plm__timeline_fini(&timeline);
    plm_trace_destroy(trace);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    plm_trace *trace = random_trace(400);
    int64_t live = plm__host_stats_get().live_count;
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            plm_timeline timeline = {0};
            plm__host_fail_at(n, persistent);
            plm_status status = plm__timeline_init(&(plm_export_source){.trace = trace}, &timeline);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            plm__timeline_fini(&timeline);
            assert_int_equal(plm__host_stats_get().live_count, live);
        }
    }
    plm_trace_destroy(trace);
}

static void numbers_are_packed_in_groups_of_seven_bits(void **state)
{
    (void)state;
    plm_text bytes = {0}, out = {0};
    plm__packed_add(&bytes, 5);
    plm__packed_add(&bytes, 300);
    plm__packed_add_signed(&bytes, -1);
    plm__packed_add_signed(&bytes, 64);
    plm__packed_add(&bytes, UINT64_MAX);
    static const uint8_t wanted[] = {5,    0xAC, 2,    1,    0x80, 1,    0xFF, 0xFF,
                                     0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1};
    assert_int_equal(bytes.count, sizeof wanted);
    assert_memory_equal(bytes.items, wanted, sizeof wanted);
    plm__packed_write(&bytes, &out);
    assert_string_equal(out.items, "\"BawCAYAB////////////AQ==\"");
    plm__text_fini(&bytes);
    plm__text_fini(&out);
}

static void a_text_is_escaped_whatever_its_bytes_are(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "\"plain\""},
        {"a\"b\\c\n\x1f\x7f", "\"a\\u0022b\\u005cc\\u000a\\u001f\\u007f\""},
        {"</script>", "\"\\u003c/script>\""},
        {"na\xc3\xafve \xf0\x9f\x9a\xa2", "\"na\xc3\xafve \xf0\x9f\x9a\xa2\""},
        {"\xff\xc0\xaf", "\"\\ufffd\\ufffd\\ufffd\""},
        {"cut \xe2\x94", "\"cut \\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"", "\"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plm_text out = {0};
        plm__escape_add(&out, cases[i][0]);
        assert_string_equal(out.items, cases[i][1]);
        plm__text_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_a_bin_are_what_the_trace_held_at_its_instant),
        cmocka_unit_test(every_grouping_adds_up_to_the_whole_in_every_bin),
        cmocka_unit_test(a_bin_knows_the_most_and_the_least_of_its_events),
        cmocka_unit_test(the_peak_and_its_holders_are_those_of_the_trace),
        cmocka_unit_test(every_block_is_kept_with_its_birth_and_death),
        cmocka_unit_test(segments_are_followed_backwards_from_the_final_ones),
        cmocka_unit_test(a_trace_without_segments_lives_in_one_arena),
        cmocka_unit_test(an_empty_trace_has_no_peak_and_no_bins),
        cmocka_unit_test(bins_stay_within_their_maximum),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(numbers_are_packed_in_groups_of_seven_bits),
        cmocka_unit_test(a_text_is_escaped_whatever_its_bytes_are),
    };
    return run_test_group(tests);
}
