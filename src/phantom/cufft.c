/* SPDX-License-Identifier: MIT */
/*
 * cuFFT: the workspace of a plan. PyTorch makes every plan by cufftXtMakePlanMany, with allocation
 * turned off, and takes the workspace itself for each transform (torch.fft, torch.stft).
 *
 * Found by asking cuFFT 12 on an H200 for 10,314 plans. A transform of a length that one kernel
 * does in one pass takes nothing: every length of up to 4096 between complex numbers that has no
 * large prime in it, and the lengths of `one_pass` to or from real ones, 400, 512, 1024 and 2048
 * among them. Else, with C bytes a complex number, n the length and R rows:
 *
 *   real, n even     n/2 R C, for it is done as a complex transform of half the length; twice that
 *                    where the rows of one dimension are so many that they fill the device
 *   real, n odd      n R C, two rows at a time
 *   complex          n R C
 *
 * Worked example: 10,016 rows of 500 real numbers in 32 bits, 500 x 10,016 x 8 = 40,064,000; cuFFT
 * said 40,064,512. Of several dimensions the last is the real one and the others are rows.
 *
 * Right to 1 % or 1 KiB in 5,018 of 5,087 plans with real numbers and lengths of up to 4200, and in
 * 3,542 of 4,528 between complex ones, where primes of 37 and more take a workspace in some lengths
 * and none in others. Lengths beyond 4200 with large primes take up to five times as much.
 */
#include "phantom/phantom.h"

#include <stddef.h>

enum {
    CUFFT_OK = 0,
    CUFFT_INVALID_VALUE = 4,
    DIMENSIONS_MAX = 3,
    COMPLEX_ONE_PASS = 4096,
    MANY_ROWS = 5531, /* on an H200's 132 multiprocessors: 5,530 rows take half as much a row */
    MANY_ROWS_ON = 132,
    LARGE_POWER = 32768, /* and twice that: one pass for so many rows: not of 100, but of 128 */
    LARGE_POWER_ROWS = 128,
};

/* Types of numbers, of library_types.h. */
enum { REAL_SINGLE, REAL_DOUBLE, REAL_HALF, COMPLEX_SINGLE = 4, COMPLEX_DOUBLE, COMPLEX_HALF };

/* Real lengths of one pass. */
static const uint16_t one_pass[] = {
    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,    14,   15,   16,
    17,   18,   19,   20,   21,   22,   23,   24,   25,   26,   27,   28,   29,    30,   31,   32,
    33,   35,   36,   37,   40,   41,   42,   43,   44,   45,   47,   48,   49,    50,   53,   54,
    55,   56,   59,   60,   61,   63,   64,   66,   67,   68,   70,   71,   72,    73,   76,   77,
    79,   80,   81,   83,   84,   88,   89,   90,   92,   96,   97,   99,   100,   101,  103,  104,
    105,  107,  108,  109,  110,  112,  113,  120,  121,  125,  126,  127,  128,   132,  135,  136,
    140,  144,  150,  152,  156,  160,  162,  165,  168,  169,  175,  176,  180,   184,  189,  192,
    198,  200,  210,  216,  220,  224,  225,  231,  232,  240,  243,  248,  250,   252,  256,  260,
    264,  270,  272,  275,  280,  288,  289,  297,  300,  304,  308,  315,  320,   324,  330,  336,
    343,  350,  352,  360,  361,  364,  368,  378,  380,  384,  385,  392,  396,   400,  405,  416,
    420,  432,  440,  441,  448,  450,  456,  462,  464,  468,  480,  486,  490,   495,  496,  504,
    512,  528,  529,  539,  540,  550,  560,  567,  576,  588,  594,  600,  616,   625,  630,  640,
    648,  660,  672,  693,  704,  720,  729,  750,  756,  768,  770,  784,  792,   800,  810,  840,
    841,  864,  875,  880,  891,  896,  924,  945,  960,  961,  972,  990,  1000,  1008, 1024, 1080,
    1296, 1331, 1728, 1920, 2048, 2187, 2197, 2401, 3072, 3125, 4096, 8192, 16384,
};
enum { ONE_PASS_COUNT = sizeof one_pass / sizeof *one_pass };

static bool is_listed(int64_t length)
{
    size_t low = 0, high = ONE_PASS_COUNT;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (one_pass[middle] < length)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ONE_PASS_COUNT && one_pass[low] == length;
}

static bool is_one_pass(int64_t length, int64_t rows)
{
    if (length == LARGE_POWER || length == 2 * LARGE_POWER)
        return rows >= LARGE_POWER_ROWS;
    return is_listed(length);
}

static int64_t complex_bytes(int type)
{
    switch (type) {
    case REAL_DOUBLE:
    case COMPLEX_DOUBLE:
        return 16;
    case REAL_HALF:
    case COMPLEX_HALF:
        return 4;
    default:
        return 8;
    }
}

/* Complex numbers in the workspace of a transform to or from real ones. */
static int64_t of_real(int64_t length, int64_t rows, int dimensions)
{
    int64_t many = (int64_t)MANY_ROWS * plm__phantom_device()->multiprocessors / MANY_ROWS_ON;
    if (is_one_pass(length, rows))
        return 0;
    if (length % 2)
        return length * (rows + rows % 2);
    return dimensions == 1 && rows >= many ? length * rows : length / 2 * rows;
}

static int64_t of_complex(int64_t length, int64_t rows)
{
    bool is_power =
        length == 8192 || length == 16384 || (length == LARGE_POWER && rows >= LARGE_POWER_ROWS);
    return length <= COMPLEX_ONE_PASS || is_power ? 0 : length * rows;
}

static bool is_real(int type)
{
    return type < COMPLEX_SINGLE;
}

PLM_STANDIN(int, cufftXtMakePlanMany,
            (int plan, int dimensions, long long *lengths, long long *in_embedded,
             long long in_stride, long long in_distance, int in_type, long long *out_embedded,
             long long out_stride, long long out_distance, int out_type, long long batch,
             size_t *bytes, int type))
{
    int64_t rows = batch, numbers;
    if (dimensions < 1 || dimensions > DIMENSIONS_MAX || !lengths || !bytes || batch < 1)
        return CUFFT_INVALID_VALUE;
    for (int i = 0; i + 1 < dimensions; i++)
        if (lengths[i] < 1 || __builtin_mul_overflow(rows, (int64_t)lengths[i], &rows))
            return CUFFT_INVALID_VALUE;
    const int64_t last = lengths[dimensions - 1];
    if (last < 1 || last > INT64_MAX / 32 / (rows + 1))
        return CUFFT_INVALID_VALUE;
    if (is_real(in_type) || is_real(out_type))
        numbers = of_real(last, rows, dimensions);
    else
        numbers = of_complex(last, rows);
    *bytes = (size_t)(numbers * complex_bytes(type));
    return CUFFT_OK;
}
