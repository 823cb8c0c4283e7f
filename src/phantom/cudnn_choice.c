/* SPDX-License-Identifier: MIT */
/*
 * Ranks plans for cudnn.benchmark. The rule is read off one recording of an H200 (cnn_benchmark,
 * cuDNN 9.19, 32 bits), where it names a plan of the recorded workspace 17 times of 17. Two more
 * runs of that script chose other plans for 2 of 17 convolutions, and the rule names a plan of the
 * workspace taken 17 and 16 times. Of 150 convolutions in three other networks it does so for 93
 * (the first of the list: 90); of some twenty simpler rules none did better over all five:
 *
 *   the first of the four foremost plans that is one of Hopper's own engines and
 *     - does not split what two full rounds and more leave, nor into more than eight parts, and
 *     - fills two thirds of the slots where it has less than a round and does not split;
 *   else the first of the list.
 */
#include "phantom/cudnn_choice.h"

#include <stddef.h>

enum { FOREMOST = 4, FEW_PARTS = 8, LAST_RANKS = 64, RANKS_MAX = 4096 };

static const float MS_PER_RANK = 1e-6f;
static __thread int ran;

static bool is_handicapped(const struct plm_cudnn_work *work, int multiprocessors)
{
    int64_t slots = plm__cudnn_slots(multiprocessors, work->cluster);
    if (slots < 1) /* the device has no room for one cluster */
        return true;
    int64_t rounds = work->tiles / slots, left = work->tiles % slots;
    int64_t parts = left ? plm__cudnn_parts(work, slots / left, rounds > 0) : 1;
    if (rounds && parts > 1)
        return rounds > 1 || parts > FEW_PARTS;
    return !rounds && parts == 1 && 3 * left < 2 * slots;
}

int plm__cudnn_rank(const struct plm_cudnn_work *work, int position, int multiprocessors)
{
    if (position < FOREMOST && work && !is_handicapped(work, multiprocessors))
        return position;
    if (position == 0)
        return FOREMOST;
    return position + LAST_RANKS < RANKS_MAX ? position + LAST_RANKS : RANKS_MAX;
}

void plm__cudnn_ran(int rank)
{
    ran = rank;
}

float plm__cudnn_ran_ms(void)
{
    int rank = ran;
    ran = 0;
    return (float)rank * MS_PER_RANK;
}
