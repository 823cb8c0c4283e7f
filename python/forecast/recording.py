# SPDX-License-Identifier: MIT
"""Counts optimizer steps, notes the peaks after each, and leaves the answer: rankR.json with the
figures and rankR.pickle, an ordinary memory snapshot with its history.

A step's figures are the peaks since the step before, read right behind the optimizer's own code.
With several optimizers each call has a row, and the forecast is complete when each of them has made
the steps asked for. What ends a script is one of four: its steps are done, its own end, an error,
or no memory, which is an answer and not an error.
"""
import atexit
import inspect
import os
import sys
import threading
import time

from . import answer, evaluation, first_values, peaks, process, ranges, refusal, unknown, values
from . import words

ENTRIES = 2000000  # events that PyTorch keeps; a step of a large model makes some ten thousand
CALLS_PER_STEP_MAX = 16  # an optimizer that never reaches its steps must not run for ever


class Recording:
    def __init__(self, torch, wanted):
        self.torch = torch
        self.wanted = wanted
        self.begun = time.time()
        self.pid = os.getpid()
        self.peaks = None  # from the first use of CUDA on
        self.steps = []
        self.counts = {}  # id of an optimizer -> calls of its step
        self.claimed = None
        self.oom = None  # the last one: what it says, where, and the snapshot of that moment
        self.lock = threading.RLock()
        self.ended = False
        self.evaluation = evaluation.Evaluation(self)
        self.ranges = ranges.Ranges(self)
        os.register_at_fork(after_in_child=self._leave_alone)

    def _leave_alone(self):
        """A forked child is a worker of a loader, or another script's; it answers only when it
        uses CUDA itself, which it cannot when its parent did."""
        if self.peaks:
            self.ended = True
        self.pid = os.getpid()

    # Coming alive.

    def begin(self):
        """CUDA has been initialised in this process."""
        if self.peaks or self.ended:
            return
        _record_history(self.torch)
        self.peaks = peaks.Peaks(self.torch)
        optimizer = sys.modules["torch.optim.optimizer"]
        optimizer.register_optimizer_step_pre_hook(self.before_step)
        optimizer.register_optimizer_step_post_hook(self.after_step)
        self.torch._C._cuda_attach_out_of_memory_observer(self.on_oom)
        _at_exit(self.at_exit)
        hook = sys.excepthook

        def uncaught(kind, error, trace):
            self.on_uncaught(error, trace)
            hook(kind, error, trace)

        sys.excepthook = uncaught

    # What is noted.

    def seconds(self):
        return round(time.time() - self.begun, 3)

    def before_step(self, optimizer, *_):
        if not self.ended:
            self.ranges.before_step()

    def after_step(self, optimizer, *_):
        if self.ended:
            return
        self._claim_or_leave()
        self.oom = None  # the script has survived it
        count = self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        if self.evaluation.ending:
            self.evaluation.after_extra_step()
            return
        row = {"step": len(self.steps) + 1, "seconds": self.seconds()}
        row.update(self.peaks.take("step"))
        self.steps.append(row)
        done = min(self.counts.values()) >= self.wanted.steps
        if self.wanted.stop and (done or count >= CALLS_PER_STEP_MAX * self.wanted.steps):
            self.evaluation.go_on_or_end()
        self.evaluation.after_step()

    def on_oom(self, device, asked, limit, free, *_):
        """Called by the allocator with the error already certain; must not raise."""
        try:
            self.oom = {"line": words.line(), "asked_bytes": asked,
                        "snapshot": self.torch.cuda.memory._snapshot()}
        except Exception as error:
            words.say("the moment of no memory could not be recorded: " + words.why(error))

    # How it ends.

    def end_by_steps(self):
        self.finish("steps")
        answer.wait_for_others(self.wanted.out, *process.rank_and_ranks(self.torch))
        words.leave(0)

    def on_uncaught(self, error, trace):
        if self.ended or os.getpid() != self.pid:
            return
        if isinstance(error, KeyboardInterrupt):
            self.ended = True
            return
        if self.evaluation.ending:  # a loader that ended early; the steps were done
            if not isinstance(error, StopIteration):
                words.say("what follows the steps is not forecast (%s): %s"
                          % (words.trace_line(trace), words.why(error)))
            self.end_by_steps()
        if _is_oom(self.torch, error):
            self.finish("out_of_memory", words.why(error), words.trace_line(trace))
            words.leave(0)
        self.finish("error", words.why(error), words.trace_line(trace))

    def at_exit(self):
        if self.ended or os.getpid() != self.pid:
            return
        if self.claimed is None and process.is_helper() and not self.oom:
            return
        if self.oom:  # caught by the script, which then gave up
            self.finish("out_of_memory", "CUDA out of memory", self.oom["line"])
        else:
            self.finish("steps" if self.evaluation.ending else "script")

    def finish(self, how, error=None, line=None):
        """Writes the answer, once. Never raises."""
        with self.lock:
            if self.ended:
                return
            self.ended = True
            try:
                if self._claim():
                    self._write(how, error, line)
            except Exception as problem:
                words.say("the answer could not be written to %s: %s"
                          % (self.wanted.out, words.why(problem)))

    def _write(self, how, error, line):
        snapshot = self.oom["snapshot"] if how == "out_of_memory" and self.oom else None
        self.evaluation.close()
        end = dict(self.peaks.take("step"), seconds=self.seconds(), **self.peaks.held())
        answer.write(self.torch, self.wanted.out, {
            "ended": how, "error": error, "line": line, "steps": self.steps,
            "evaluation": self.evaluation.rows, "end": end, "peak": self.peaks.marks["whole"],
            "ranges": self.ranges.rows(), "warnings": unknown.warnings,
            "attention": values.attention(),
        }, snapshot)

    def _claim(self):
        if self.claimed is None:
            self.claimed = process.claim(self.wanted.out, process.rank_and_ranks(self.torch)[0])
        return self.claimed

    def _claim_or_leave(self):
        """A second script of the same command is not forecast, and must not train to its end."""
        if self._claim() or not self.wanted.stop:
            return
        if max(self.counts.values(), default=0) >= self.wanted.steps or answer.is_there(
                self.wanted.out, process.rank_and_ranks(self.torch)[0]):
            words.say("another process answers for this rank; this one ends")
            words.leave(0)


def _is_oom(torch, error):
    return isinstance(error, torch.cuda.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "out of memory" in str(error))


def _record_history(torch):
    record = torch.cuda.memory._record_memory_history
    inspect.signature(record).bind("all", stacks="python", max_entries=ENTRIES)
    record("all", stacks="python", max_entries=ENTRIES)


def _at_exit(function):
    """Also in a child of multiprocessing, which calls no exit handlers but its own."""
    atexit.register(function)
    if "multiprocessing.util" in sys.modules:
        sys.modules["multiprocessing.util"].Finalize(None, function, exitpriority=100)


def attach(torch, wanted):
    """torch has been imported."""
    refusal.check_torch(torch)
    refusal.check_stand_in()
    refusal.check_allocator(torch)
    recording = Recording(torch, wanted)
    refusal.on_refused(lambda text: recording.finish("refused", text, words.line()))
    values.begin(torch)
    first_values.begin(torch)
    torch.cuda._lazy_call(recording.begin)
