/* SPDX-License-Identifier: MIT */
/* Numbers in groups of seven bits, and base64 (RFC 4648). */
#include "report/packed.h"

void plm__packed_add(plm_text *bytes, uint64_t number)
{
    char packed[10];
    int count = 0;
    for (; number >= 128; number >>= 7)
        packed[count++] = (char)(number | 128);
    packed[count++] = (char)number;
    plm__text_add_bytes(bytes, packed, count);
}

void plm__packed_add_signed(plm_text *bytes, int64_t number)
{
    uint64_t sign = number < 0 ? ~(uint64_t)0 : 0;
    plm__packed_add(bytes, ((uint64_t)number << 1) ^ sign);
}

void plm__packed_write(const plm_text *bytes, plm_text *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (out->status == PLM_OK)
        out->status = bytes->status;
    if (out->status == PLM_OK)
        out->status = PLM_ARRAY_RESERVE(out, out->count + (bytes->count + 2) / 3 * 4 + 3);
    plm__text_add_bytes(out, "\"", 1);
    for (int64_t i = 0; i < bytes->count; i += 3) {
        int64_t left = bytes->count - i;
        uint32_t three = (uint32_t)(uint8_t)bytes->items[i] << 16;
        if (left > 1)
            three |= (uint32_t)(uint8_t)bytes->items[i + 1] << 8;
        if (left > 2)
            three |= (uint8_t)bytes->items[i + 2];
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                        left > 1 ? letters[three >> 6 & 63] : '=',
                        left > 2 ? letters[three & 63] : '='};
        plm__text_add_bytes(out, four, 4);
    }
    plm__text_add_bytes(out, "\"", 1);
}
