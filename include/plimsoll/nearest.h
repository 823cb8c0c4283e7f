/* SPDX-License-Identifier: MIT */
/*
 * The known name that an unknown one was probably meant to be, for messages that say "did you
 * mean".
 *
 *     plm_nearest nearest = {.word = "trian"};
 *     for (each known name)
 *         plm_nearest_offer(&nearest, name);
 *     if (nearest.name)
 *         ... "did you mean", nearest.name ...
 *
 * Nearness counts the letters that were added, left out, changed or swapped with their neighbour; a
 * name is near when at most a third of the longer word differs. Ties go to the name that was
 * offered first. Thread-safe: all state is in the structure.
 */
#ifndef PLIMSOLL_NEAREST_H
#define PLIMSOLL_NEAREST_H

#ifdef __cplusplus
extern "C" {
#endif

/* Words of more letters are near nothing. */
enum { PLM_NEAREST_LETTERS_MAX = 48 };

typedef struct plm_nearest {
    const char *word; /* what was found; borrowed */
    const char *name; /* the nearest offer so far, borrowed; NULL: nothing is near */
    int distance;     /* of `name`, when there is one */
} plm_nearest;

/* Takes `name` for the nearest when it is near and nearer than those before. Never fails. */
void plm_nearest_offer(plm_nearest *nearest, const char *name);

#ifdef __cplusplus
}
#endif
#endif
