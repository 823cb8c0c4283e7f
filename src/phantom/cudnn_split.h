/* SPDX-License-Identifier: MIT */
/*
 * The workspace of Hopper's convolution kernels that split the sum: the one size that the real
 * cuDNN answers for another device than the one described to it.
 *
 * Without a card the library counts 18 multiprocessors, whatever the description says; which
 * configuration comes first in its list, and every other part of a workspace, is as on the card.
 * So a told size is taken apart, and the part that depends on multiprocessors is put together anew.
 * How that part comes about stands in cudnn_split.c.
 */
#ifndef PLM_PHANTOM_CUDNN_SPLIT_H
#define PLM_PHANTOM_CUDNN_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

struct plm_cudnn_convolution;

/* What of an engine's configuration decides; -1: the engine has no such knob. */
struct plm_cudnn_knobs {
    int64_t tile;            /* CUDNN_KNOB_TYPE_TILE_SIZE, an index */
    int64_t depth;           /* CUDNN_KNOB_TYPE_TILEK, an index */
    int64_t no_workspace;    /* CUDNN_KNOB_TYPE_WORKSPACE: 1 forbids splits */
    int64_t cluster_rows;    /* CUDNN_KNOB_TYPE_TILE_CGA_M, in tiles */
    int64_t cluster_columns; /* CUDNN_KNOB_TYPE_TILE_CGA_N */
};

enum { PLM_CUDNN_TOLD_MULTIPROCESSORS = 18 }; /* what cuDNN counts without a card */

/* A product of matrices as one of those kernels works it off. */
struct plm_cudnn_work {
    int64_t tiles;       /* of the result, whole clusters of them */
    int64_t cluster;     /* tiles that run together */
    int64_t steps;       /* along the sum, of 32 or 64 elements each */
    int64_t deep_steps;  /* a split of so many is worth while however many there are */
    int64_t short_steps; /* a part of a tile left over has so many at least */
    int64_t tile_bytes;  /* of a partial result: 4 an element */
    double level;        /* what putting two halves together costs, in steps: all tiles at once */
    double rest_level;   /* the same for the last tiles, which follow full rounds */
    bool may_split;
};

/* False: the kernel is not one of those, or its tile is not known. */
bool plm__cudnn_work_of(const struct plm_cudnn_convolution *convolution,
                        const struct plm_cudnn_knobs *knobs, struct plm_cudnn_work *work);

/* Tiles that run at once. A cluster must fit into one group of multiprocessors (GPC), so larger
 * clusters leave some idle: of an H200's 132, clusters of three use 117, of four 120, of five 110.
 * 18 are one whole group. Other cards are taken to lose an eleventh, as clusters of four do. */
int64_t plm__cudnn_slots(int multiprocessors, int64_t cluster);

/* How many parts the sum of each of `tiles` tiles is split into, 1 for none, where `most` parts fit
 * on the device at once. `rest`: full rounds of tiles have gone before. */
int64_t plm__cudnn_parts(const struct plm_cudnn_work *work, int64_t most, bool rest);

/* Bytes of partial results, flags and counters on a device of so many multiprocessors. */
int64_t plm__cudnn_split_bytes(const struct plm_cudnn_work *work, int multiprocessors);

/* The workspace on the device, from the one that the library told. False, and `told` itself in
 * *bytes: the told size is not what this file's rules make of 18 multiprocessors. */
bool plm__cudnn_move_split(const struct plm_cudnn_convolution *convolution,
                           const struct plm_cudnn_knobs *knobs, int64_t told, int multiprocessors,
                           int64_t *bytes);

#endif
