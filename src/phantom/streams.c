/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime and driver: streams, events, captures. A capture begins on one stream; others
 * join when they wait for an event that was recorded within the capture, and all leave when the
 * first ends.
 *
 *     begin(A) -> capture 1;  record(e, A);  wait(B, e): B is in capture 1;  end(A): neither is
 *
 * Some arguments differ between CUDA 12 and 13: cudaStreamGetCaptureInfo takes 3 in CUDA 12 and 7
 * in CUDA 13; CUDA 12 has the one with 6 as _v2 and the one with 7 as _v3.
 */
#include "phantom/streams.h"

#include "phantom/cudnn_choice.h"
#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/process.h"
#include "phantom/runtime.h"

enum { MAX_CAPTURING = 256, MAX_EVENTS = 4096 };

/* An elapsed time in ms that is positive and short, so that autotuning repeats as on a card. */
static const float ELAPSED_MS = 0.02f;

static struct member {
    const void *handle;
    uint64_t capture;
} capturing[MAX_CAPTURING], recorded[MAX_EVENTS]; /* streams; events, in a ring */
static int capturing_count, recorded_next;
static uint64_t last_capture;
static __thread int capture_mode; /* cudaStreamCaptureModeGlobal at first */

static struct member *find(const void *stream)
{
    for (int i = 0; i < capturing_count; i++)
        if (capturing[i].handle == stream)
            return &capturing[i];
    return NULL;
}

static bool is_running(uint64_t capture)
{
    for (int i = 0; i < capturing_count; i++)
        if (capturing[i].capture == capture)
            return true;
    return false;
}

static void join(const void *stream, uint64_t capture)
{
    if (capturing_count == MAX_CAPTURING)
        plm__phantom_stop("wanted at most %d streams captured at once, found more", MAX_CAPTURING);
    capturing[capturing_count] = (struct member){.handle = stream, .capture = capture};
    __atomic_store_n(&capturing_count, capturing_count + 1, __ATOMIC_RELAXED);
}

static void end_capture(uint64_t capture)
{
    int kept = 0;
    for (int i = 0; i < capturing_count; i++)
        if (capturing[i].capture != capture)
            capturing[kept++] = capturing[i];
    __atomic_store_n(&capturing_count, kept, __ATOMIC_RELAXED);
}

/* The capture in which the event was recorded last, while it runs. */
static uint64_t event_capture(const void *event)
{
    for (int i = 1; i <= MAX_EVENTS; i++) {
        const struct member *at = &recorded[(recorded_next - i + MAX_EVENTS) % MAX_EVENTS];
        if (at->handle == event)
            return is_running(at->capture) ? at->capture : 0;
    }
    return 0;
}

static bool nobody_captures(void)
{
    return __atomic_load_n(&capturing_count, __ATOMIC_RELAXED) == 0;
}

uint64_t plm__streams_capture(const void *stream)
{
    if (nobody_captures())
        return 0;
    plm__phantom_lock();
    const struct member *member = find(stream);
    uint64_t capture = member ? member->capture : 0;
    plm__phantom_unlock();
    return capture;
}

PLM_STANDIN(int, cudaStreamBeginCapture, (void *stream, int mode))
{
    plm__phantom_lock();
    bool free_stream = !find(stream);
    if (free_stream)
        join(stream, ++last_capture);
    plm__phantom_unlock();
    return free_stream ? PLM_CUDA_OK : plm__runtime_status(PLM_CUDA_INVALID_VALUE);
}

PLM_STANDIN(int, cudaStreamEndCapture, (void *stream, void **graph))
{
    plm__phantom_lock();
    const struct member *member = find(stream);
    if (member)
        end_capture(member->capture);
    plm__phantom_unlock();
    *graph = member ? plm__phantom_handle() : NULL;
    return member ? PLM_CUDA_OK : plm__runtime_status(PLM_CUDA_CAPTURE_UNMATCHED);
}

/* Nothing that a capture holds has run, so nobody can wait for its end. */
PLM_STANDIN(int, cuStreamSynchronize, (void *stream))
{
    return plm__streams_capture(stream) ? PLM_CUDA_CAPTURE_UNSUPPORTED : PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamIsCapturing, (void *stream, int *status))
{
    *status = plm__streams_capture(stream) != 0;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetCaptureInfo_v2,
            (void *stream, int *status, uint64_t *id, void **graph, void **dependencies,
             size_t *count))
{
    uint64_t capture = plm__streams_capture(stream);
    *status = capture != 0;
    if (id)
        *id = capture;
    if (graph)
        *graph = (void *)(uintptr_t)capture;
    if (dependencies)
        *dependencies = NULL;
    if (count)
        *count = 0;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetCaptureInfo_v3,
            (void *stream, int *status, uint64_t *id, void **graph, void **dependencies,
             void **edges, size_t *count))
{
    if (edges)
        *edges = NULL;
    return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

/* In CUDA 12 the caller passed three arguments: the others hold anything. */
PLM_STANDIN(int, cudaStreamGetCaptureInfo,
            (void *stream, int *status, uint64_t *id, void **graph, void **dependencies,
             void **edges, size_t *count))
{
    if (plm__phantom_cuda() == 12)
        return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
    return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

PLM_STANDIN(int, cudaThreadExchangeStreamCaptureMode, (int *mode))
{
    int before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamCreateWithPriority, (void **stream, unsigned flags, int priority))
{
    *stream = plm__phantom_handle();
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetPriority, (void *stream, int *priority))
{
    *priority = 0;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetFlags, (void *stream, unsigned *flags))
{
    *flags = 1; /* does not wait for the default stream, as PyTorch makes them */
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetId, (void *stream, uint64_t *id))
{
    *id = (uint64_t)(uintptr_t)stream;
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamGetDevice, (void *stream, int *device))
{
    *device = plm__phantom_current();
    return PLM_CUDA_OK;
}

static void record(const void *event, const void *stream)
{
    if (nobody_captures())
        return;
    plm__phantom_lock();
    const struct member *member = find(stream);
    uint64_t capture = member ? member->capture : 0; /* recorded elsewhere it leads nobody in */
    recorded[recorded_next] = (struct member){.handle = event, .capture = capture};
    recorded_next = (recorded_next + 1) % MAX_EVENTS;
    plm__phantom_unlock();
}

PLM_STANDIN(int, cudaEventRecord, (void *event, void *stream))
{
    record(event, stream);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaEventRecordWithFlags, (void *event, void *stream, unsigned flags))
{
    record(event, stream);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamWaitEvent, (void *stream, void *event, unsigned flags))
{
    if (nobody_captures())
        return PLM_CUDA_OK;
    plm__phantom_lock();
    uint64_t capture = event_capture(event);
    if (capture && !find(stream))
        join(stream, capture);
    plm__phantom_unlock();
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaEventElapsedTime, (float *ms, void *start, void *end))
{
    *ms = ELAPSED_MS + plm__cudnn_ran_ms();
    return PLM_CUDA_OK;
}

/* Functions of the host run where they stand in the stream: now, or never while it is captured. */
PLM_STANDIN(int, cudaLaunchHostFunc, (void *stream, void (*function)(void *), void *argument))
{
    if (!plm__streams_capture(stream))
        function(argument);
    return PLM_CUDA_OK;
}

PLM_STANDIN(int, cudaStreamAddCallback,
            (void *stream, void (*function)(void *, int, void *), void *argument, unsigned flags))
{
    function(stream, PLM_CUDA_OK, argument);
    return PLM_CUDA_OK;
}

/* A captured graph is never looked into; it is said to hold one node, so that it is not empty. */
PLM_STANDIN(int, cudaGraphGetNodes, (void *graph, void **nodes, size_t *count))
{
    if (nodes && *count > 0)
        nodes[0] = graph;
    *count = 1;
    return PLM_CUDA_OK;
}
