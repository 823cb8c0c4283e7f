/* SPDX-License-Identifier: MIT */
/*
 * What follows from an out-of-memory message.
 *
 * Its figures are rounded to two decimals, so each is a range, and something is called proven only
 * when it holds for every value in the ranges. The rules stand on how PyTorch's allocator fails:
 * before it gives up it waits for pending frees, gives every cached segment that holds nothing live
 * back to the driver, and asks once more. So the cached memory that is left shares its segments
 * with live tensors, and the figure that it asked for is that of a segment, not of the tensor.
 */
#include "diagnose/oom_message.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "plimsoll/size.h"

#define MIB 1048576.0

/* Less than this beside the process is what driver and contexts hold, not a neighbour. */
#define NEIGHBOUR_LEAST (1024 * MIB)

/* Cached memory below this share of what is reserved: the device is full, not fragmented. */
#define FRAGMENTED_SHARE 0.1

/* Bytes, as far as they are known: low > high when they are not. */
typedef struct range {
    double low, high;
} range;

static const range unknown = {1, 0};

/* What the rules look at. */
typedef struct view {
    const plm_oom_message *message;
    range asked, capacity, free, allowed, process, allocated, private, unallocated;
    range reserved;      /* by PyTorch, as far as it can be told */
    range others;        /* held on the device by anyone else, the driver included */
    bool listed_is_this; /* the one process that it lists can only be this one */
} view;

static bool known(range a)
{
    return a.low <= a.high;
}

static range figure_range(const plm_oom_message *message, plm_oom_figure_kind kind)
{
    const plm_oom_figure *figure = &message->figures[kind];
    if (!figure->known)
        return unknown;
    double bytes = (double)figure->bytes, precision = (double)figure->precision;
    return (range){fmax(bytes - precision, 0), bytes + precision};
}

static range plus(range a, range b)
{
    return known(a) && known(b) ? (range){a.low + b.low, a.high + b.high} : unknown;
}

/* The difference, not below 0; unknown when it would surely be: then the figures do not belong
 * together. */
static range minus(range a, range b)
{
    if (!known(a) || !known(b) || a.high < b.low)
        return unknown;
    return (range){fmax(a.low - b.high, 0), a.high - b.low};
}

static bool surely_over(range a, range b)
{
    return known(a) && known(b) && a.low > b.high;
}

static bool surely_within(range a, range b)
{
    return known(a) && known(b) && a.high <= b.low;
}

static view view_of(const plm_oom_message *message)
{
    view v = {
        .message = message,
        .asked = figure_range(message, PLM_OOM_ASKED),
        .capacity = figure_range(message, PLM_OOM_CAPACITY),
        .free = figure_range(message, PLM_OOM_FREE),
        .allowed = figure_range(message, PLM_OOM_ALLOWED),
        .process = figure_range(message, PLM_OOM_THIS_PROCESS),
        .allocated = figure_range(message, PLM_OOM_ALLOCATED),
        .private = figure_range(message, PLM_OOM_PRIVATE),
        .unallocated = figure_range(message, PLM_OOM_UNALLOCATED),
        .reserved = figure_range(message, PLM_OOM_RESERVED),
    };
    if (message->figures[PLM_OOM_ALLOWED].bytes == SIZE_MAX) /* "no limit", as a number */
        v.allowed = unknown;
    if (!known(v.reserved))
        v.reserved = plus(v.allocated, v.unallocated);
    if (!known(v.unallocated))
        v.unallocated = minus(v.reserved, v.allocated);
    range taken = minus(v.capacity, v.free), listed = figure_range(message, PLM_OOM_LISTED);
    v.listed_is_this = !known(v.process) && message->listed == 1 && known(taken) &&
                       surely_over(plus(listed, v.reserved), taken);
    if (v.listed_is_this)
        v.process = listed;
    v.others = known(v.process) ? minus(taken, v.process) : unknown;
    return v;
}

/* "1.53 GiB" for the middle of a range. */
static const char *middle(range a, char text[PLM_SIZE_TEXT])
{
    return plm_size_format((size_t)fmin((a.low + a.high) / 2, 0x1p62), text);
}

__attribute__((format(printf, 3, 4))) static void
add(plm_oom_report *report, plm_oom_finding_kind kind, const char *format, ...)
{
    if (report->finding_count == PLM_OOM_FINDINGS_MAX)
        return;
    plm_oom_finding *finding = &report->findings[report->finding_count++];
    va_list arguments;
    va_start(arguments, format);
    finding->kind = kind;
    plm__print_list(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static bool is_near(range a, double bytes)
{
    return a.low <= bytes && bytes <= a.high;
}

/* The tensor behind the segment that was asked for. */
static void tell_request(const view *v, plm_oom_report *report)
{
    if (!known(v->asked))
        return;
    char most[PLM_SIZE_TEXT], least[PLM_SIZE_TEXT];
    bool caching =
        v->message->form == PLM_OOM_FORM_PYTORCH_1 || v->message->form == PLM_OOM_FORM_PYTORCH_2;
    if (v->message->figures[PLM_OOM_ASKED].bytes == SIZE_MAX)
        add(report, PLM_OOM_PROVES, "The request was beyond any memory there is.");
    else if (!caching)
        add(report, PLM_OOM_PROVES, "The request was for %s.", middle(v->asked, most));
    else if (is_near(v->asked, 2 * MIB))
        add(report, PLM_OOM_PROVES,
            "A tensor of at most 1 MiB was wanted: 2.00 MiB is the segment for small ones.");
    else if (is_near(v->asked, 20 * MIB))
        add(report, PLM_OOM_PROVES,
            "A tensor of over 1 and under 10 MiB, or of over 18 up to 20 MiB, was wanted: 20.00 "
            "MiB is the segment that PyTorch asks for, not the tensor.");
    else if (v->asked.high < 2 * MIB || is_near(v->asked, 10 * MIB))
        add(report, PLM_OOM_PROVES, "A tensor of about %s was wanted.", middle(v->asked, most));
    else
        add(report, PLM_OOM_PROVES,
            "A tensor of over %s up to %s was wanted: PyTorch rounds such a request up to 2 MiB, "
            "and the message rounds it again.",
            plm_size_format((size_t)fmin(v->asked.low - 2 * MIB, 0x1p62), least),
            middle((range){v->asked.high, v->asked.high}, most));
}

/* What the device held, and for whom. */
static void tell_device(const view *v, plm_oom_report *report)
{
    char a[PLM_SIZE_TEXT], b[PLM_SIZE_TEXT], c[PLM_SIZE_TEXT];
    if (surely_over(v->asked, v->free) && known(minus(v->capacity, v->free)))
        add(report, PLM_OOM_PROVES, "The device had %s free of %s: %s too little for the request.",
            middle(v->free, a), middle(v->capacity, b), middle(minus(v->asked, v->free), c));
    if (known(v->reserved) && known(v->allocated))
        add(report, PLM_OOM_PROVES,
            "PyTorch had reserved %s: %s in live tensors and %s cached. It had given back every "
            "cached segment without a live tensor before it gave up (unless a CUDA graph was being "
            "captured), so what is left cached shares its segments with live tensors%s.",
            middle(v->reserved, a), middle(v->allocated, b), middle(v->unallocated, c),
            known(v->private) ? " or belongs to a private pool" : "");
    if (known(v->private))
        add(report, PLM_OOM_PROVES,
            "%s of the tensors lie in private pools (CUDA graphs, MemPool); no ordinary request "
            "can "
            "use what those pools hold free.",
            middle(v->private, a));
    range outside = minus(v->process, v->reserved);
    if (known(outside) && outside.low > 0)
        add(report, PLM_OOM_PROVES,
            "%s of this process lie outside PyTorch's allocator%s: the CUDA context, libraries "
            "such "
            "as NCCL and cuBLAS.",
            middle(outside, a), known(v->private) ? " or free in private pools" : "");
}

/* Other processes, as far as the message tells them. */
static void tell_others(const view *v, plm_oom_report *report)
{
    char a[PLM_SIZE_TEXT];
    range rest = minus(minus(v->capacity, v->free), v->reserved);
    if (known(v->others) && v->others.low >= NEIGHBOUR_LEAST)
        add(report, PLM_OOM_PROVES, "%s of the device are held by others than this process.",
            middle(v->others, a));
    if (v->listed_is_this)
        add(report, PLM_OOM_PROVES,
            "The process that it lists is this one, under the number that it has outside its "
            "container: another of that size would not fit beside it.");
    if (!known(v->process) && known(rest))
        add(report, PLM_OOM_CANNOT,
            "Who holds the %s that are neither free nor PyTorch's here: other processes, or this "
            "one's context and libraries.",
            middle(rest, a));
}

static bool decide(plm_oom_report *report, plm_verdict verdict, bool proven)
{
    report->verdict = verdict;
    report->proven = proven;
    return true;
}

/* A limit on this process. */
static bool judge_limit(const view *v, plm_oom_report *report)
{
    char a[PLM_SIZE_TEXT], b[PLM_SIZE_TEXT];
    if (!known(v->allowed))
        return false;
    if (v->message->form == PLM_OOM_FORM_MPS) {
        add(report, PLM_OOM_PROVES, "Metal's allocator refuses what goes beyond its mark of %s.",
            middle(v->allowed, a));
        return decide(report, PLM_VERDICT_LIMIT, true);
    }
    range held = known(v->reserved) ? v->reserved : v->allocated;
    if (surely_within(v->asked, v->free) && known(held)) {
        add(report, PLM_OOM_PROVES,
            "The device had room; the limit of %s on this process refused it, with %s held.",
            middle(v->allowed, a), middle(held, b));
        return decide(report, PLM_VERDICT_LIMIT, true);
    }
    if (!surely_over(plus(held, v->asked), v->allowed))
        return false;
    add(report, PLM_OOM_PROVES,
        "The limit of %s on this process would have refused it in any case.",
        middle(v->allowed, a));
    return decide(report, PLM_VERDICT_LIMIT, true);
}

/* Causes that need no look at the cache. */
static bool judge_outright(const view *v, plm_oom_report *report)
{
    char a[PLM_SIZE_TEXT];
    const plm_oom_message *message = v->message;
    if (message->form == PLM_OOM_FORM_LIBRARY)
        return decide(report, PLM_VERDICT_LIBRARY, true);
    if (message->form == PLM_OOM_FORM_HOST)
        return decide(report, PLM_VERDICT_HOST, true);
    bool endless = message->figures[PLM_OOM_ASKED].bytes == SIZE_MAX;
    if (!endless && !surely_over(v->asked, v->capacity))
        return judge_limit(v, report);
    if (known(v->capacity))
        add(report, PLM_OOM_PROVES,
            "No state of a device of %s could have served it: one tensor is larger than all of it.",
            middle(v->capacity, a));
    return decide(report, PLM_VERDICT_TOO_LARGE, true);
}

/* Cached memory against the request. */
static bool judge_cache(const view *v, plm_oom_report *report)
{
    char a[PLM_SIZE_TEXT], b[PLM_SIZE_TEXT], c[PLM_SIZE_TEXT];
    range both = plus(v->unallocated, v->free);
    if (surely_over(plus(v->allocated, v->asked), v->capacity)) {
        add(report, PLM_OOM_PROVES,
            "Live tensors and the request are %s, more than the device: no allocator could help.",
            middle(plus(v->allocated, v->asked), a));
        return decide(report, PLM_VERDICT_CAPACITY, true);
    }
    if (!known(both) || !known(v->asked))
        return false;
    if (surely_over(v->asked, both)) {
        add(report, PLM_OOM_PROVES,
            "It is not fragmentation alone: all cached bytes and all free ones together are %s, "
            "and "
            "%s would still be missing.",
            middle(both, a), middle(minus(v->asked, both), b));
        return decide(report, PLM_VERDICT_CAPACITY, true);
    }
    if (surely_over(v->asked, v->unallocated))
        add(report, PLM_OOM_PROVES,
            "The %s cached would not hold the request even in one piece; with the %s free they "
            "would, "
            "if they could be given back to the driver.",
            middle(v->unallocated, a), middle(v->free, b));
    else
        add(report, PLM_OOM_PROVES,
            "The %s cached are at least about the %s asked for, and yet no piece of them could "
            "serve: "
            "each is too small, or kept for another stream%s.",
            middle(v->unallocated, a), middle(v->asked, c), known(v->private) ? " or pool" : "");
    if (v->unallocated.high >= FRAGMENTED_SHARE * v->reserved.low)
        return decide(report, PLM_VERDICT_FRAGMENTATION, false);
    add(report, PLM_OOM_PROVES,
        "Only %.0f %% of what PyTorch reserved are cached: with a perfect allocator the run would "
        "stand as close to the end.",
        100 * v->unallocated.high / v->reserved.low);
    return decide(report, PLM_VERDICT_CAPACITY, false);
}

static void judge(const view *v, plm_oom_report *report)
{
    if (judge_outright(v, report))
        return;
    range without = plus(v->free, v->others);
    if (known(v->others) && v->others.low >= NEIGHBOUR_LEAST && surely_within(v->asked, without)) {
        judge_cache(v, report);
        add(report, PLM_OOM_PROVES,
            "Without the others on the device this request would have fitted.");
        decide(report, PLM_VERDICT_OTHER_PROCESS, true);
        return;
    }
    if (known(v->free) && known(v->capacity) && v->free.low > v->capacity.high) {
        add(report, PLM_OOM_CANNOT, "Anything from the free memory: more is free than there is.");
        decide(report, PLM_VERDICT_UNKNOWN, false);
    } else if (surely_within(v->asked, v->free)) {
        add(report, PLM_OOM_PROVES,
            "More was free than asked for when the message was written, so either memory was freed "
            "in "
            "between or something refused that the message does not name: a partition of the GPU, "
            "a "
            "virtual one, the driver's own limits.");
        decide(report, PLM_VERDICT_UNKNOWN, false);
    } else if (!judge_cache(v, report)) {
        decide(report, PLM_VERDICT_UNKNOWN, false);
    }
}

/* What no such message tells. */
static void tell_limits(const view *v, plm_oom_report *report)
{
    switch (report->verdict) {
    case PLM_VERDICT_TOO_LARGE:
        add(report, PLM_OOM_CANNOT, "Which operation asked: the last lines of the traceback do.");
        return;
    case PLM_VERDICT_HOST:
        add(report, PLM_OOM_CANNOT, "Anything about the GPU.");
        return;
    case PLM_VERDICT_LIBRARY:
        add(report, PLM_OOM_CANNOT,
            "How much was wanted, by which library, and what the device held: it has no figures.");
        return;
    default:
        break;
    }
    if (v->message->form == PLM_OOM_FORM_BARE)
        add(report, PLM_OOM_CANNOT,
            "How much was asked for and what was held: its figures are missing.");
    add(report, PLM_OOM_CANNOT,
        "What the live tensors are (parameters, optimizer, activations, a leak), and whether they "
        "grew from step to step.");
    if (report->verdict == PLM_VERDICT_FRAGMENTATION ||
        (known(v->unallocated) && v->unallocated.low > MIB))
        add(report, PLM_OOM_CANNOT,
            "That memory is fragmented, or by what: the largest free piece and the tensors that "
            "pin "
            "the others are not in it.");
}

/* What to do, by cause. */
static const char *const remedies[PLM_VERDICT_COUNT] = {
    [PLM_VERDICT_TOO_LARGE] =
        "Look at the shapes in the operation on top of the traceback: a broadcast, a full matrix "
        "of "
        "pairs or a mixed-up dimension makes such tensors. Less batch will not mend it.",
    [PLM_VERDICT_LIMIT] =
        "Find who set the limit: torch.cuda.set_per_process_memory_fraction, per_process_memory_"
        "fraction in PYTORCH_ALLOC_CONF, or the serving program's own option. Raise it, or treat "
        "the "
        "need as if the device were that small.",
    [PLM_VERDICT_OTHER_PROCESS] =
        "See who the others are, and whether they grow: plimsoll watch, or "
        "nvidia-smi. A process of "
        "an earlier run that did not end is common.",
    [PLM_VERDICT_CAPACITY] =
        "Reduce the need, not the cache: plimsoll bill shows what a model of this shape takes and "
        "what each treatment would save.",
    [PLM_VERDICT_FRAGMENTATION] =
        "Measure before setting anything: a sweep of plimsoll replay runs the recorded requests "
        "through every allocator setting and says what each would have reserved.",
    [PLM_VERDICT_LIBRARY] =
        "Leave room beside PyTorch: what it keeps cached is not there for cuBLAS, cuDNN and NCCL. "
        "torch.cuda.mem_get_info() just before the call tells how much was left.",
    [PLM_VERDICT_HOST] = "Look at the host: DataLoader workers, pinned memory, a data set held "
                         "whole, offloaded states; "
                         "the kernel's log names the process that it killed.",
    [PLM_VERDICT_UNKNOWN] = NULL,
};

static void tell_next(const view *v, plm_oom_report *report)
{
    bool record = report->verdict != PLM_VERDICT_HOST && report->verdict != PLM_VERDICT_TOO_LARGE &&
                  v->message->form != PLM_OOM_FORM_MPS && strcmp(v->message->backend, "XPU") != 0;
    if (record)
        add(report, PLM_OOM_NEXT,
            "Record the run: plimsoll record -- python ... writes a snapshot when the error comes, "
            "and "
            "plimsoll snapshot FILE names what is live, the peak, leaks and the largest free "
            "piece.");
    if (v->message->form == PLM_OOM_FORM_MPS)
        add(report, PLM_OOM_NEXT,
            "Reduce the need; PYTORCH_MPS_HIGH_WATERMARK_RATIO moves the mark, but what lies "
            "beyond "
            "it is the memory of the whole machine.");
    else if (remedies[report->verdict])
        add(report, PLM_OOM_NEXT, "%s", remedies[report->verdict]);
    if (v->message->split_advice)
        add(report, PLM_OOM_NEXT,
            "Do not set max_split_size_mb because the message says so: it forbids splitting larger "
            "blocks. On a run of changing lengths on an H200 it raised reserved memory from 51.6 "
            "to 139 "
            "GiB; expandable_segments:True took 13.2.");
    if (report->source_count > 1)
        add(report, PLM_OOM_NEXT,
            "Look at the earliest of the %lld messages first (line %lld): the ranks that fail "
            "later "
            "may fail because of it.",
            (long long)report->message_count, (long long)report->sources[0].first_line);
}

void plm__oom_explain(plm_oom_report *report)
{
    view v = view_of(&report->message);
    report->finding_count = 0;
    tell_request(&v, report);
    tell_device(&v, report);
    tell_others(&v, report);
    judge(&v, report);
    tell_limits(&v, report);
    tell_next(&v, report);
}
