/* SPDX-License-Identifier: MIT */
/*
 * The 16-bit types: every value both ways, and the rounding of the numbers between two neighbours,
 * against arithmetic in double.
 */
#include "unit/test.h"

#include <math.h>

#include "base/half.h"

typedef struct format {
    const char *name;
    float (*widen)(uint16_t bits);
    uint16_t (*narrow)(float x);
    int fraction_bits, bias, infinity; /* infinity: its bits */
} format;

static float from_bf16(uint16_t bits)
{
    return plm__from_bf16(bits);
}

static uint16_t to_bf16(float x)
{
    return plm__to_bf16(x);
}

static float from_fp16(uint16_t bits)
{
    return plm__from_fp16(bits);
}

static uint16_t to_fp16(float x)
{
    return plm__to_fp16(x);
}

static const format formats[] = {
    {"bf16", from_bf16, to_bf16, 7, 127, 0x7f80},
    {"fp16", from_fp16, to_fp16, 10, 15, 0x7c00},
};

enum { FORMATS = sizeof formats / sizeof *formats };

/* What positive, finite bits say, by the definition of the format. */
static double value_by_definition(const format *f, int bits)
{
    int exponent = bits >> f->fraction_bits, fraction = bits & ((1 << f->fraction_bits) - 1);
    double significand = exponent ? fraction + ldexp(1, f->fraction_bits) : fraction;
    return ldexp(significand, (exponent ? exponent : 1) - f->bias - f->fraction_bits);
}

static void every_value_widens_by_definition_and_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (int bits = 0; bits < 65536; bits++) {
            const format *f = &formats[i];
            float x = f->widen((uint16_t)bits);
            int magnitude = bits & 0x7fff;
            if (magnitude > f->infinity) {
                assert_true(isnan(x));
                assert_true((f->narrow(x) & 0x7fff) > f->infinity);
                continue;
            }
            double wanted =
                magnitude == f->infinity ? (double)INFINITY : value_by_definition(f, magnitude);
            assert_true(fabs((double)x) == wanted && !signbit(x) == !(bits & 0x8000));
            assert_int_equal(f->narrow(x), bits);
        }
}

/* Between two neighbours: below the middle down, above it up, the middle itself to the even one. */
static void what_lies_between_two_values_rounds_to_the_nearer_and_ties_to_even(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++)
        for (int bits = 0; bits < formats[i].infinity; bits++) {
            const format *f = &formats[i];
            double low = value_by_definition(f, bits);
            /* After the largest value comes what would be the next one, which is infinity. */
            double middle = (low + value_by_definition(f, bits + 1)) / 2;
            float tie = (float)middle; /* exact: fp32 has the bits, denormal or not */
            assert_true((double)tie == middle);
            int even = bits + (bits & 1);
            assert_int_equal(f->narrow(tie), even);
            assert_int_equal(f->narrow(nextafterf(tie, 0)), bits);
            assert_int_equal(f->narrow(nextafterf(tie, INFINITY)), bits + 1);
            assert_int_equal(f->narrow(-tie), even | 0x8000);
        }
}

static void what_is_too_large_is_infinite_and_what_is_too_small_is_zero(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        assert_int_equal(f->narrow(3.4028235e38f), f->infinity);
        assert_int_equal(f->narrow(-3.4028235e38f), f->infinity | 0x8000);
        assert_int_equal(f->narrow(1e-45f), 0);
        assert_int_equal(f->narrow(-1e-45f), 0x8000);
    }
    assert_int_equal(plm__to_fp16(65519.996f), 0x7bff);
    assert_int_equal(plm__to_fp16(65520.0f), 0x7c00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_widens_by_definition_and_comes_back),
        cmocka_unit_test(what_lies_between_two_values_rounds_to_the_nearer_and_ties_to_even),
        cmocka_unit_test(what_is_too_large_is_infinite_and_what_is_too_small_is_zero),
    };
    return run_test_group(tests);
}
