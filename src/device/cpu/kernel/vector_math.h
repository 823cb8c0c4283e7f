/* SPDX-License-Identifier: MIT */
/*
 * Elementary functions as plain arithmetic, so that a loop over them is vectorised on every
 * instruction set. Their errors are tested against libm over their whole range.
 */
#ifndef PLM_DEVICE_CPU_VECTOR_MATH_H
#define PLM_DEVICE_CPU_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/*
 * e^x within 1.5 units in the last place. 0 below -87.3 (no denormals), infinity above 88.7, NaN
 * stays. x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by a polynomial whose relative error, found
 * by Remez's exchange, is 3.1e-9.
 */
static inline float plm__exp(float x)
{
    float held = x > 88.72283f ? 88.72283f : x;
    held = held < -87.3f ? -87.3f : held;
    /* Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits. */
    float shifted = held * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = (held - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float tail = 0.00138145406f;
    tail = tail * r + 0.00836874545f;
    tail = tail * r + 0.041668389f;
    tail = tail * r + 0.166665211f;
    tail = tail * r + 0.49999994f;
    float power = 1.0f + (r + r * r * tail);
    uint32_t bits, exponent;
    memcpy(&bits, &power, sizeof bits);
    memcpy(&exponent, &shifted, sizeof exponent);
    bits += exponent << 23;
    memcpy(&power, &bits, sizeof power);
    power = x < -87.3f ? 0.0f : power;
    return x <= 88.72283f ? power : x + INFINITY; /* infinity, or the NaN that x is */
}

/* 1 / (1 + e^-x) within 3 units in the last place where it is not tiny. */
static inline float plm__sigmoid(float x)
{
    return 1.0f / (1.0f + plm__exp(-x));
}

/*
 * The share of the normal distribution that lies below x, (1 + erf(x / sqrt 2)) / 2, given `power`
 * = e^(-x^2 / 2), which a caller needs too. Its error is at most 1.2e-7; below 0, where the share
 * is small, it is at most 5 + x^2 / 2 units in the last place, to which the rounding of x^2 adds.
 *
 * The share beyond a = |x| is power times a slowly falling function, here t polynomial(s) with
 * t = 1 / (1 + 0.4 a) and s = 1 - t computed as 0.4 a t, so that nothing cancels near 0. The
 * polynomial, found by Remez's exchange for a from 0 to 13.3, has a relative error of 1.5e-8.
 */
static inline float plm__normal_below(float x, float power)
{
    float scaled = 0.4f * fabsf(x), t = 1.0f / (1.0f + scaled), s = scaled * t;
    float tail = -0.0319045113f;
    tail = tail * s + 0.112007917f;
    tail = tail * s - 0.125858351f;
    tail = tail * s + 0.0559882067f;
    tail = tail * s - 0.0605143909f;
    tail = tail * s + 0.0226827003f;
    tail = tail * s + 0.116681399f;
    tail = tail * s + 0.0678511873f;
    tail = tail * s - 0.49735734f;
    tail = tail * s + 0.500000007f;
    float beyond = power * t * tail;
    return x < 0.0f ? beyond : 1.0f - beyond;
}

#endif
