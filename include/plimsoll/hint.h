/* SPDX-License-Identifier: MIT */
/*
 * Hints: what a reader could change or ask for, as data. This library says in words what was found;
 * what is to be typed is the program's to say, which alone knows its options. A program gives its
 * words in an array by plm_hint: reports put them in, and where a failure names a hint
 * (plm_error.hint) the program adds its words to the message.
 *
 *     static const char *const hints[PLM_HINT_COUNT] = {[PLM_HINT_BATCH] = "--batch", ...};
 */
#ifndef PLIMSOLL_HINT_H
#define PLIMSOLL_HINT_H

/* One row a hint: name, and the words where the program has none. Choices of a plan, followed by
 * their new value, come first; then what is to be done. */
#define PLM_HINT_MAP(ROW)                                                                          \
    ROW(NONE, "")                                                                                  \
    ROW(OPTIMIZER, "optimizer")                                                                    \
    ROW(ATTENTION, "attention")                                                                    \
    ROW(RECOMPUTE, "recompute")                                                                    \
    ROW(PRECISION, "precision")                                                                    \
    ROW(GRADIENT, "gradient")                                                                      \
    ROW(UPDATE, "update")                                                                          \
    ROW(BATCH, "batch")                                                                            \
    ROW(SEQUENCE, "sequence")                                                                      \
    ROW(CALIBRATE, "calibrating")                                                                  \
    ROW(ROWS, "a longer table")                                                                    \
    ROW(CAPACITY, "state it")                                                                      \
    ROW(CLIP_NOTHING, "turn clipping off")                                                         \
    ROW(OTHER_TEXT, "say that another text is meant")

typedef enum plm_hint {
#define PLM_HINT_ROW(name, words) PLM_HINT_##name,
    PLM_HINT_MAP(PLM_HINT_ROW)
#undef PLM_HINT_ROW
        PLM_HINT_COUNT
} plm_hint;

#endif
