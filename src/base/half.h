/* SPDX-License-Identifier: MIT */
/*
 * The 16-bit floating point types as their bits, to and from fp32. bf16 is the upper half of fp32;
 * fp16 is IEEE 754's binary16. Rounding is to nearest, ties to even; what is too large becomes
 * infinity, NaN stays NaN. Plain arithmetic on bits, so that a loop over them is vectorised.
 */
#ifndef PLM_BASE_HALF_H
#define PLM_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t plm__bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float plm__of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float plm__from_bf16(uint16_t bits)
{
    return plm__of_bits((uint32_t)bits << 16);
}

static inline uint16_t plm__to_bf16(float x)
{
    uint32_t bits = plm__bits_of(x);
    uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
    uint32_t nan = bits >> 16 | 0x40U; /* quiet; rounding could carry it into infinity */
    return (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

static inline float plm__from_fp16(uint16_t bits)
{
    uint32_t magnitude = (bits & 0x7fffU) << 13, sign = (bits & 0x8000U) << 16;
    uint32_t exponent = bits & 0x7c00U;
    /* The exponent's bias is 15 here and 127 there; infinity and NaN have all ones. */
    uint32_t moved = magnitude + (exponent == 0x7c00U ? 224U << 23 : 112U << 23);
    uint32_t small = plm__bits_of(plm__of_bits(magnitude + (113U << 23)) - 0x1p-14f);
    return plm__of_bits(sign | (exponent == 0 ? small : moved));
}

static inline uint16_t plm__to_fp16(float x)
{
    uint32_t bits = plm__bits_of(x), sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
    uint32_t normal = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    /* Under 2^-14 the unit is 2^-24, which is the unit of fp32 between 1/2 and 1. */
    uint32_t small = plm__bits_of(plm__of_bits(magnitude) + 0.5f) - plm__bits_of(0.5f);
    uint32_t value = magnitude < 0x38800000U ? small : normal;
    value = magnitude >= 0x47800000U ? 0x7c00U : value;
    value = magnitude > 0x7f800000U ? 0x7e00U : value;
    return (uint16_t)(sign | value);
}

#endif
