/* SPDX-License-Identifier: MIT */
/*
 * What a device says of itself, once as a field of cudaDeviceProp and once as an attribute. Facts
 * of CUDA's published headers: offsets in both layouts, numbers of attributes.
 */
#ifndef PLM_PHANTOM_PROPERTIES_H
#define PLM_PHANTOM_PROPERTIES_H

#include <stdint.h>

enum {
    PLM_PROPERTIES_12_BYTES = 1032,
    PLM_PROPERTIES_13_BYTES = 1008,
    PLM_PROPERTIES_UUID_OFFSET = 256,
};

enum plm_property_source {
    PLM_PROPERTY_FIXED,           /* `value` itself: the same on every card since 7.0 */
    PLM_PROPERTY_NUMBER,          /* the int at offset `value` of struct plm_phantom_device */
    PLM_PROPERTY_BYTES,           /* the size_t there */
    PLM_PROPERTY_MAJOR,           /* of the compute capability */
    PLM_PROPERTY_MINOR,           /* of the compute capability */
    PLM_PROPERTY_BUS,             /* the device's bus: its number + 1 */
    PLM_PROPERTY_FROM,            /* 1 from compute capability `value` on, else 0 */
    PLM_PROPERTY_RESERVED_SHARED, /* what CUDA keeps of a block's shared memory */
};

struct plm_property {
    const char *name;         /* in cudaDeviceProp; "" for an attribute alone */
    int attribute;            /* 0: none */
    int offset_12, offset_13; /* -1: not in that layout */
    int bytes;                /* of the field */
    enum plm_property_source source;
    uint64_t value;
};

extern const struct plm_property plm__properties[];
extern const int plm__property_count;

#endif
