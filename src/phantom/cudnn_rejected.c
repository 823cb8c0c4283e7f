/* SPDX-License-Identifier: MIT */
/*
 * Listens to the real cuDNN's log (cudnnSetCallback) while one configuration is asked for.
 *
 * Worked example: of a convolution of [32,64,56,56] by 64 filters of 1 x 1 in 32 bits the log says
 * three times (once for each of the engine's knobs)
 *
 *     engineConfig: type=json; val={"engineId":58,"smVersion":900,"knobChoices":{}};
 *
 * and then engine 38 is the one listed. An H200 took engine 58. So it was with 303 convolutions of
 * four recordings on an H200, whose own log named the engine: where engine 58 (or 63, 62) is told
 * as turned away, the card took that engine, and nowhere else. Of 152,459 convolutions that a card
 * was asked for it took that engine in 60,491 of the 61,624 that tell it. Other engines that are
 * told first are taken as often as cudnn_absent.c says.
 *
 * The callback is the process's, and is heard only by a thread that asks.
 */
#include "phantom/cudnn_rejected.h"

#include "phantom/cudnn_log.h"
#include "phantom/cudnn_real.h"

#include <stdbool.h>
#include <string.h>

enum { INFORMATION = 1 << 3, ATTEMPTS_MAX = 8 };

typedef void (*log_callback)(int severity, void *data, const void *record, const char *lines);

struct listener {
    int wanted, first; /* the first engine turned away, 0 before one is heard of */
    bool heard_anything, heard_wanted;
};

static __thread struct listener *listening; /* NULL: the thread's messages are nobody's */

static void hear(int severity, void *data, const void *record, const char *lines)
{
    (void)severity, (void)data, (void)record;
    struct listener *listener = listening;
    if (!listener)
        return;
    listener->heard_anything = true;
    listener->heard_wanted |= plm__cudnn_tells_rejection(lines, listener->wanted);
    if (!listener->first)
        listener->first = plm__cudnn_rejected_engine(lines);
}

static void ask_for_one(plm_cudnn_descriptor heuristic)
{
    const struct plm_cudnn_real *real = plm__cudnn_real();
    plm_cudnn_descriptor configuration = NULL;
    int64_t count = 0;
    if (real->create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration))
        return;
    real->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
              &configuration);
    real->destroy(configuration);
}

/* No lock is held while the library is asked, so another thread that is done may have turned the
 * callback off: who heard nothing asks again. */
int plm__cudnn_rejected_first(plm_cudnn_descriptor heuristic, int wanted)
{
    int (*set_callback)(unsigned mask, void *data, log_callback callback);
    void *found = plm__cudnn_function("cudnnSetCallback");
    memcpy(&set_callback, &found, sizeof set_callback);
    struct listener listener = {.wanted = wanted};
    for (int attempt = 0; attempt < ATTEMPTS_MAX && !listener.heard_anything; attempt++) {
        if (set_callback(INFORMATION, NULL, hear))
            return 0;
        listening = &listener;
        ask_for_one(heuristic);
        listening = NULL;
        set_callback(0, NULL, NULL);
    }
    return listener.heard_wanted ? wanted : listener.first;
}
