/* SPDX-License-Identifier: MIT */
/* The corpus: its two parts, sequences that depend on nothing but their names, bad files. */
#include "unit/test.h"

#include <math.h>

#include "base/file.h"
#include "plimsoll/data.h"

enum { LENGTH = 7, FILE_BYTES = 200, TRAINING_BYTES = 180, HELD_OUT_BYTES = 20 };

static char path[] = "/tmp/plimsoll-test-data-XXXXXX";

static int make_path(void **state)
{
    (void)state;
    int descriptor = mkstemp(path);
    if (descriptor >= 0)
        close(descriptor);
    return descriptor >= 0 ? 0 : -1;
}

static int remove_path(void **state)
{
    unlink(path);
    return check_no_leak(state);
}

/* A corpus in which every byte tells its place: 0, 1, ..., 199. */
static plm_corpus *open_counting(void)
{
    uint8_t bytes[FILE_BYTES];
    plm_corpus *corpus = NULL;
    for (int i = 0; i < FILE_BYTES; i++)
        bytes[i] = (uint8_t)i;
    assert_ok(plm__file_write(path, bytes, sizeof bytes));
    assert_ok(plm_corpus_open(path, LENGTH, 256, &corpus));
    return corpus;
}

static void assert_open_fails(int64_t length, int64_t vocab, plm_status status, const char *words)
{
    plm_corpus *corpus = NULL;
    plm_error error;
    assert_int_equal(plm_corpus_open(path, length, vocab, &corpus), status);
    assert_null(corpus);
    plm_error_get(&error);
    if (!strstr(error.message, words))
        fail_msg("wanted '%s' in '%s'", words, error.message);
}

static void the_last_tenth_is_held_out(void **state)
{
    (void)state;
    plm_corpus *corpus = open_counting();
    plm_corpus_counts counts = plm_corpus_count(corpus);
    assert_int_equal(counts.training_tokens, TRAINING_BYTES);
    assert_int_equal(counts.held_out_tokens, HELD_OUT_BYTES);
    assert_int_equal(counts.held_out_targets, HELD_OUT_BYTES - 1);
    assert_int_equal(counts.held_out_windows, 3);
    plm_corpus_close(corpus);
}

static void a_sequence_and_its_targets_are_consecutive_and_of_the_training_part(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    static int32_t tokens[MANY * LENGTH], targets[MANY * LENGTH];
    bool begins[TRAINING_BYTES] = {false};
    plm_corpus *corpus = open_counting();
    assert_ok(plm_corpus_sample(corpus, 1, 0, 0, MANY, tokens, targets));
    for (int i = 0; i < MANY; i++) {
        begins[tokens[i * LENGTH]] = true;
        for (int t = 0; t < LENGTH; t++) {
            assert_int_equal(tokens[i * LENGTH + t], tokens[i * LENGTH] + t);
            assert_int_equal(targets[i * LENGTH + t], tokens[i * LENGTH + t] + 1);
            assert_true(targets[i * LENGTH + t] < TRAINING_BYTES);
        }
    }
    for (int place = 0; place < TRAINING_BYTES; place++) /* every place is drawn, the last too */
        assert_int_equal(begins[place], place < TRAINING_BYTES - LENGTH);
    plm_corpus_close(corpus);
}

static void sequences_do_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    int32_t whole[2][12 * LENGTH], part[2][12 * LENGTH];
    plm_corpus *corpus = open_counting();
    assert_ok(plm_corpus_sample(corpus, 9, 5, 0, 12, whole[0], whole[1]));
    for (int64_t micro = 1; micro <= 12; micro++)
        for (int64_t first = 0; first + micro <= 12; first += micro) {
            assert_ok(plm_corpus_sample(corpus, 9, 5, first, micro, part[0], part[1]));
            size_t bytes = (size_t)(micro * LENGTH) * sizeof **whole;
            assert_memory_equal(part[0], whole[0] + first * LENGTH, bytes);
            assert_memory_equal(part[1], whole[1] + first * LENGTH, bytes);
        }
    plm_corpus_close(corpus);
}

static void another_seed_or_step_draws_other_sequences(void **state)
{
    (void)state;
    int32_t base[8 * LENGTH], other[8 * LENGTH], targets[8 * LENGTH];
    plm_corpus *corpus = open_counting();
    assert_ok(plm_corpus_sample(corpus, 1, 3, 0, 8, base, targets));
    assert_ok(plm_corpus_sample(corpus, 1, 4, 0, 8, other, targets));
    assert_memory_not_equal(base, other, sizeof base);
    assert_ok(plm_corpus_sample(corpus, 2, 3, 0, 8, other, targets));
    assert_memory_not_equal(base, other, sizeof base);
    assert_int_equal(plm_corpus_sample(corpus, 1, -1, 0, 8, other, targets), PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_corpus_sample(corpus, 1, INT64_C(1) << 32, 0, 8, other, targets),
                     PLM_ERROR_ARGUMENT);
    plm_corpus_close(corpus);
}

static void held_out_windows_cover_every_target_once_and_pad_the_last(void **state)
{
    (void)state;
    int32_t tokens[5 * LENGTH], targets[5 * LENGTH];
    plm_corpus *corpus = open_counting();
    assert_ok(plm_corpus_held_out(corpus, 0, 5, tokens, targets));
    for (int i = 0; i < 5 * LENGTH; i++) {
        bool inside = i < HELD_OUT_BYTES - 1;
        assert_int_equal(tokens[i], inside ? TRAINING_BYTES + i : 0);
        assert_int_equal(targets[i], inside ? TRAINING_BYTES + i + 1 : PLM_TARGET_IGNORED);
    }
    int32_t again[LENGTH];
    assert_ok(plm_corpus_held_out(corpus, 1, 1, again, targets));
    assert_memory_equal(again, tokens + LENGTH, sizeof again);
    assert_ok(plm_corpus_held_out(corpus, INT64_MAX, 1, again, targets));
    assert_int_equal(targets[0], PLM_TARGET_IGNORED);
    assert_int_equal(plm_corpus_held_out(corpus, -1, 1, again, targets), PLM_ERROR_ARGUMENT);
    plm_corpus_close(corpus);
}

/* "abab...": after a comes b 90 times of 90, after b comes a 89 times of 89 in 180 bytes. */
static void the_bigram_loss_of_a_known_text_is_what_pencil_and_paper_say(void **state)
{
    (void)state;
    uint8_t bytes[FILE_BYTES];
    plm_corpus *corpus = NULL;
    double loss = 0;
    for (int i = 0; i < FILE_BYTES; i++)
        bytes[i] = (uint8_t)(i % 2);
    assert_ok(plm__file_write(path, bytes, sizeof bytes));
    assert_ok(plm_corpus_open(path, LENGTH, 2, &corpus));
    assert_ok(plm_corpus_bigram_loss(corpus, &loss));
    double wanted = -(10 * log(91.0 / 92.0) + 9 * log(90.0 / 91.0)) / 19;
    assert_true(fabs(loss - wanted) < 1e-12);
    plm_corpus_close(corpus);
}

/* The figure was made once in Python, from the formula alone. */
static void a_bigram_scores_2_331_nats_on_the_text_that_comes_along(void **state)
{
    (void)state;
    plm_corpus *corpus = NULL;
    double loss = 0;
    assert_ok(plm_corpus_open(PLM_SOURCE_DIR "/data/text.txt", 256, 256, &corpus));
    assert_int_equal(plm_corpus_count(corpus).held_out_tokens, 415320);
    assert_ok(plm_corpus_bigram_loss(corpus, &loss));
    assert_true(fabs(loss - 2.331192202572185) < 1e-9);
    plm_corpus_close(corpus);
}

static void files_that_cannot_be_trained_on_are_refused(void **state)
{
    (void)state;
    static const char text[] = "0123456789012345678901234567890123456789abcdefgh\xe9";
    assert_ok(plm__file_write(path, "", 0));
    assert_open_fails(3, 256, PLM_ERROR_FORMAT, "is empty: wanted at least 40 bytes");
    assert_ok(plm__file_write(path, text, 39));
    assert_open_fails(3, 256, PLM_ERROR_FORMAT, "want at least 40 bytes, of which the last tenth");
    assert_ok(plm__file_write(path, text, 49));
    assert_open_fails(3, 128, PLM_ERROR_FORMAT, "the byte 233 at offset 48, beyond a vocabulary");
    assert_open_fails(0, 128, PLM_ERROR_ARGUMENT, "sequence length");
    assert_open_fails(INT64_MAX, 128, PLM_ERROR_ARGUMENT, "sequence length");
    assert_open_fails(3, 0, PLM_ERROR_ARGUMENT, "vocabulary");
    plm_corpus *corpus = NULL;
    assert_int_equal(plm_corpus_open("/nonexistent/text", 3, 256, &corpus), PLM_ERROR_IO);
    assert_null(corpus);
}

static void exactly_the_smallest_file_is_enough(void **state)
{
    (void)state;
    int32_t tokens[3], targets[3];
    plm_corpus *corpus = NULL;
    assert_ok(plm__file_write(path, "0123456789012345678901234567890123456789", 40));
    assert_ok(plm_corpus_open(path, 3, 256, &corpus));
    assert_int_equal(plm_corpus_count(corpus).held_out_windows, 1);
    assert_ok(plm_corpus_held_out(corpus, 0, 1, tokens, targets));
    assert_int_equal(targets[2], '9');
    plm_corpus_close(corpus);
}

/* ---- hidden tokens ------------------------------------------------------------------------- */

enum { MASKED = 4000 };

/* A corpus with room for the mask, and the sequences of one step before and after hiding. */
typedef struct hidden {
    plm_corpus *corpus;
    int32_t tokens[MASKED * LENGTH], targets[MASKED * LENGTH];
    int32_t seen[MASKED * LENGTH], told[MASKED * LENGTH];
} hidden;

static void hide(hidden *h, uint64_t seed, int64_t step)
{
    plm_corpus_close(open_counting());
    assert_ok(plm_corpus_open(path, LENGTH, PLM_TOKEN_MASK + 1, &h->corpus));
    assert_ok(plm_corpus_sample(h->corpus, seed, step, 0, MASKED, h->tokens, h->targets));
    memcpy(h->seen, h->tokens, sizeof h->seen);
    memcpy(h->told, h->targets, sizeof h->told);
    assert_ok(plm_corpus_mask(h->corpus, seed, step, 0, MASKED, h->seen, h->told));
}

static void fifteen_in_a_hundred_tokens_are_hidden_in_three_ways(void **state)
{
    (void)state;
    static hidden h;
    double chosen = 0, behind_mask = 0, changed = 0, kept = 0;
    bool drawn[256] = {false};
    hide(&h, 1, 3);
    for (int i = 0; i < MASKED * LENGTH; i++) {
        if (h.told[i] == PLM_TARGET_IGNORED) {
            assert_int_equal(h.seen[i], h.tokens[i]);
            continue;
        }
        assert_int_equal(h.told[i], h.tokens[i]);
        assert_true(h.seen[i] >= 0 && h.seen[i] <= PLM_TOKEN_MASK);
        chosen += 1;
        behind_mask += h.seen[i] == PLM_TOKEN_MASK;
        kept += h.seen[i] == h.tokens[i];
        changed += h.seen[i] != PLM_TOKEN_MASK && h.seen[i] != h.tokens[i];
        if (h.seen[i] != PLM_TOKEN_MASK && h.seen[i] != h.tokens[i])
            drawn[h.seen[i]] = true;
    }
    int kinds = 0;
    for (int i = 0; i < 256; i++)
        kinds += drawn[i];
    /* four deviations of a binomial of 28000 and of 4200 */
    assert_true(fabs(chosen / (MASKED * LENGTH) - 0.15) < 4 * 0.0021);
    assert_true(fabs(behind_mask / chosen - 0.8) < 4 * 0.0062);
    assert_true(fabs(changed / chosen - 0.1) < 4 * 0.0047);
    assert_true(fabs(kept / chosen - 0.1) < 4 * 0.0047);
    assert_true(kinds > 180); /* any byte may come, not only those of the text */
    plm_corpus_close(h.corpus);
}

static void what_is_hidden_depends_on_seed_step_sequence_and_position_alone(void **state)
{
    (void)state;
    static hidden h;
    enum { FEW = 12 };
    hide(&h, 9, 5);
    for (int64_t micro = 1; micro <= FEW; micro++)
        for (int64_t first = 0; first + micro <= FEW; first += micro) {
            int32_t tokens[FEW * LENGTH], targets[FEW * LENGTH];
            size_t bytes = (size_t)(micro * LENGTH) * sizeof *tokens;
            memcpy(tokens, h.tokens + first * LENGTH, bytes);
            memcpy(targets, h.targets + first * LENGTH, bytes);
            assert_ok(plm_corpus_mask(h.corpus, 9, 5, first, micro, tokens, targets));
            assert_memory_equal(tokens, h.seen + first * LENGTH, bytes);
            assert_memory_equal(targets, h.told + first * LENGTH, bytes);
        }
    static const int64_t others[][3] = {{8, 5, 0}, {9, 6, 0}, {9, 5, 1}}; /* seed, step, first */
    for (int i = 0; i < 3; i++) {
        static int32_t tokens[MASKED * LENGTH], targets[MASKED * LENGTH];
        memcpy(tokens, h.tokens, sizeof tokens);
        memcpy(targets, h.targets, sizeof targets);
        assert_ok(plm_corpus_mask(h.corpus, (uint64_t)others[i][0], others[i][1], others[i][2],
                                  MASKED, tokens, targets));
        assert_memory_not_equal(targets, h.told, sizeof targets);
    }
    plm_corpus_close(h.corpus);
}

static void what_lies_beyond_the_text_is_never_hidden(void **state)
{
    (void)state;
    plm_corpus *corpus = NULL;
    int32_t tokens[5 * LENGTH], targets[5 * LENGTH];
    plm_corpus_close(open_counting());
    assert_ok(plm_corpus_open(path, LENGTH, PLM_TOKEN_MASK + 1, &corpus));
    for (uint64_t seed = 0; seed < 50; seed++) {
        assert_ok(plm_corpus_held_out(corpus, 0, 5, tokens, targets));
        assert_ok(plm_corpus_mask(corpus, seed, 0, 0, 5, tokens, targets));
        for (int i = HELD_OUT_BYTES - 1; i < 5 * LENGTH; i++) {
            assert_int_equal(tokens[i], 0);
            assert_int_equal(targets[i], PLM_TARGET_IGNORED);
        }
    }
    plm_corpus_close(corpus);
}

static void a_vocabulary_without_room_for_the_mask_is_refused(void **state)
{
    (void)state;
    plm_corpus *corpus = open_counting();
    plm_error error;
    int32_t tokens[LENGTH], targets[LENGTH];
    assert_int_equal(plm_corpus_check_mask(corpus), PLM_ERROR_ARGUMENT);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "at least 257, found 256"));
    assert_ok(plm_corpus_sample(corpus, 1, 0, 0, 1, tokens, targets));
    assert_int_equal(plm_corpus_mask(corpus, 1, 0, 0, 1, tokens, targets), PLM_ERROR_ARGUMENT);
    plm_corpus_close(corpus);
    assert_ok(plm_corpus_open(path, LENGTH, 257, &corpus));
    assert_ok(plm_corpus_mask(corpus, 1, 0, 0, 1, tokens, targets));
    assert_int_equal(plm_corpus_mask(corpus, 1, -1, 0, 1, tokens, targets), PLM_ERROR_ARGUMENT);
    assert_int_equal(plm_corpus_mask(corpus, 1, 0, -1, 1, tokens, targets), PLM_ERROR_ARGUMENT);
    plm_corpus_close(corpus);
}

/* ---- failures ------------------------------------------------------------------------------ */

static void a_text_that_is_cut_short_while_it_is_open_is_told_and_not_the_end(void **state)
{
    (void)state;
    int32_t tokens[LENGTH], targets[LENGTH];
    double loss;
    plm_error error;
    plm_corpus *corpus = open_counting();
    assert_int_equal(truncate(path, TRAINING_BYTES + 1), 0);
    assert_ok(plm_corpus_sample(corpus, 1, 0, 0, 1, tokens, targets));
    assert_int_equal(plm_corpus_held_out(corpus, 0, 1, tokens, targets), PLM_ERROR_IO);
    assert_int_equal(plm_corpus_bigram_loss(corpus, &loss), PLM_ERROR_IO);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(plm_corpus_sample(corpus, 1, 0, 0, 1, tokens, targets), PLM_ERROR_IO);
    plm_error_get(&error);
    assert_non_null(strstr(error.message, "is shorter than it was: wanted the 200 bytes"));
    plm_corpus_close(corpus);
}

static void a_sequence_longer_than_what_is_read_at_once_is_whole(void **state)
{
    (void)state;
    enum { LONG = 10000, LONG_FILE = 200000 };
    static uint8_t bytes[LONG_FILE];
    static int32_t tokens[2 * LONG], targets[2 * LONG];
    plm_corpus *corpus = NULL;
    for (int i = 0; i < LONG_FILE; i++)
        bytes[i] = (uint8_t)(i % 251);
    assert_ok(plm__file_write(path, bytes, sizeof bytes));
    assert_ok(plm_corpus_open(path, LONG, 251, &corpus)); /* each byte is looked at */
    assert_ok(plm_corpus_sample(corpus, 1, 0, 0, 1, tokens, targets));
    for (int t = 0; t < LONG; t++) {
        assert_int_equal(tokens[t], (tokens[0] + t) % 251);
        assert_int_equal(targets[t], (tokens[0] + t + 1) % 251);
    }
    assert_ok(plm_corpus_held_out(corpus, 0, 2, tokens, targets));
    for (int t = 0; t < 2 * LONG; t++) {
        int place = LONG_FILE - LONG_FILE / 10 + t;
        bool inside = place + 1 < LONG_FILE;
        assert_int_equal(tokens[t], inside ? place % 251 : 0);
        assert_int_equal(targets[t], inside ? (place + 1) % 251 : PLM_TARGET_IGNORED);
    }
    plm_corpus_close(corpus);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_ok(plm__file_write(path, "0123456789012345678901234567890123456789", 40));
    for (int persistent = 0; persistent < 2; persistent++) {
        bool fired = true;
        for (int64_t n = 1; fired; n++) {
            plm_corpus *corpus = NULL;
            double loss = -1;
            plm__host_fail_at(n, persistent);
            plm_status status = plm_corpus_open(path, 3, 256, &corpus);
            if (status == PLM_OK)
                status = plm_corpus_bigram_loss(corpus, &loss);
            fired = plm__host_fail_at(0, false);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            assert_true(fired == (loss == -1));
            plm_corpus_close(corpus);
            assert_int_equal(plm__host_stats_get().live_count, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_tenth_is_held_out),
        cmocka_unit_test(a_sequence_and_its_targets_are_consecutive_and_of_the_training_part),
        cmocka_unit_test(sequences_do_not_depend_on_the_micro_batch),
        cmocka_unit_test(another_seed_or_step_draws_other_sequences),
        cmocka_unit_test(held_out_windows_cover_every_target_once_and_pad_the_last),
        cmocka_unit_test(the_bigram_loss_of_a_known_text_is_what_pencil_and_paper_say),
        cmocka_unit_test(a_bigram_scores_2_331_nats_on_the_text_that_comes_along),
        cmocka_unit_test(files_that_cannot_be_trained_on_are_refused),
        cmocka_unit_test(exactly_the_smallest_file_is_enough),
        cmocka_unit_test(fifteen_in_a_hundred_tokens_are_hidden_in_three_ways),
        cmocka_unit_test(what_is_hidden_depends_on_seed_step_sequence_and_position_alone),
        cmocka_unit_test(what_lies_beyond_the_text_is_never_hidden),
        cmocka_unit_test(a_vocabulary_without_room_for_the_mask_is_refused),
        cmocka_unit_test(a_text_that_is_cut_short_while_it_is_open_is_told_and_not_the_end),
        cmocka_unit_test(a_sequence_longer_than_what_is_read_at_once_is_whole),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
