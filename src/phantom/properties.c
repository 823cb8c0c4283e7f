/* SPDX-License-Identifier: MIT */
/* The table of properties. Columns: name, attribute, offset in CUDA 12 and 13, bytes, source. */
#include "phantom/properties.h"

#include "phantom/phantom.h"

#define FIXED(value)  PLM_PROPERTY_FIXED, value
#define NUMBER(field) PLM_PROPERTY_NUMBER, offsetof(struct plm_phantom_device, field)
#define BYTES(field)  PLM_PROPERTY_BYTES, offsetof(struct plm_phantom_device, field)
#define FROM(least)   PLM_PROPERTY_FROM, least

/* clang-format off */
const struct plm_property plm__properties[] = {
    {"totalGlobalMem",               0, 288, 288, 8, BYTES(memory_bytes)},
    {"sharedMemPerBlock",            8, 296, 296, 8, FIXED(49152)},
    {"regsPerBlock",                12, 304, 304, 4, FIXED(65536)},
    {"warpSize",                    10, 308, 308, 4, FIXED(32)},
    {"memPitch",                    11, 312, 312, 8, FIXED(2147483647)},
    {"maxThreadsPerBlock",           1, 320, 320, 4, FIXED(1024)},
    {"maxThreadsDim[0]",             2, 324, 324, 4, FIXED(1024)},
    {"maxThreadsDim[1]",             3, 328, 328, 4, FIXED(1024)},
    {"maxThreadsDim[2]",             4, 332, 332, 4, FIXED(64)},
    {"maxGridSize[0]",               5, 336, 336, 4, FIXED(2147483647)},
    {"maxGridSize[1]",               6, 340, 340, 4, FIXED(65535)},
    {"maxGridSize[2]",               7, 344, 344, 4, FIXED(65535)},
    {"clockRate",                   13, 348,  -1, 4, NUMBER(clock_khz)},
    {"totalConstMem",                9, 352, 352, 8, FIXED(65536)},
    {"major",                       75, 360, 360, 4, PLM_PROPERTY_MAJOR, 0},
    {"minor",                       76, 364, 364, 4, PLM_PROPERTY_MINOR, 0},
    {"textureAlignment",            14, 368, 368, 8, FIXED(512)},
    {"texturePitchAlignment",       51, 376, 376, 8, FIXED(32)},
    {"multiProcessorCount",         16, 388, 384, 4, NUMBER(multiprocessors)},
    {"canMapHostMemory",            19, 400, 392, 4, FIXED(1)},
    {"concurrentKernels",           31, 576, 560, 4, FIXED(1)},
    {"pciBusID",                    33, 584, 568, 4, PLM_PROPERTY_BUS, 0},
    {"asyncEngineCount",            40, 600, 584, 4, FIXED(3)},
    {"unifiedAddressing",           41, 604, 588, 4, FIXED(1)},
    {"memoryClockRate",             36, 608,  -1, 4, NUMBER(memory_clock_khz)},
    {"memoryBusWidth",              37, 612, 592, 4, NUMBER(bus_bits)},
    {"l2CacheSize",                 38, 616, 596, 4, BYTES(l2_bytes)},
    {"maxThreadsPerMultiProcessor", 39, 624, 604, 4, NUMBER(threads_per_multiprocessor)},
    {"streamPrioritiesSupported",   78, 628, 608, 4, FIXED(1)},
    {"sharedMemPerMultiprocessor",  81, 640, 624, 8, BYTES(shared_bytes_per_multiprocessor)},
    {"regsPerMultiprocessor",       82, 648, 632, 4, NUMBER(registers_per_multiprocessor)},
    {"managedMemory",               83, 652, 636, 4, FIXED(1)},
    {"cooperativeLaunch",           95, 688, 668, 4, FIXED(1)},
    {"sharedMemPerBlockOptin",      97, 696, 672, 8, BYTES(shared_bytes_per_block_optin)},
    {"maxBlocksPerMultiProcessor", 106, 712, 688, 4, NUMBER(blocks_per_multiprocessor)},
    {"reservedSharedMemPerBlock",  111, 720, 696, 8, PLM_PROPERTY_RESERVED_SHARED, 0},
    {"memoryPoolsSupported",       115, 744, 720, 4, FIXED(1)},
    {"clusterLaunch",              120, 772, 748, 4, FROM(90)},
    {"",                           102,  -1,  -1, 4, FIXED(1)}, /* virtual memory management */
    {"",                           103,  -1,  -1, 4, FIXED(1)}, /* its handles as file descriptors */
};
/* clang-format on */

const int plm__property_count = sizeof plm__properties / sizeof plm__properties[0];
