# SPDX-License-Identifier: MIT
"""Figures for which the card itself has a range, and both of its ends.

fp16  A gradient scaler begins with a scale that overflows: on a card the first updates are skipped,
      and the optimizer's moments are made later. Here no update is skipped. Until the first that
      counts a step peaks at no more than what had been reached before the optimizer's first step.
DDP   Its reducer keeps copies of all gradients in buckets; with the second step it makes new ones,
      and when the old ones go depends on when NCCL's watchdog looks: before or after the next peak.
      Here the watchdog is given the time to look, so the forecast is the low end.
"""
import time

from . import imports

WATCHDOG_SECONDS = 0.25  # NCCL's watchdog looks ten times a second


class Ranges:
    def __init__(self, recording):
        self.recording = recording
        self.before_first = None  # the peaks before the optimizer's first step
        self.scaled = False  # a gradient scaler is at work
        self.bucket_bytes = 0
        imports.after("torch.amp.grad_scaler", self._watch_scaler)
        imports.after("torch.nn.parallel.distributed", self._watch_ddp)

    def _watch_scaler(self, module):
        step = module.GradScaler.step

        def watched(scaler, *arguments, **more):
            self.scaled = self.scaled or scaler.is_enabled()
            return step(scaler, *arguments, **more)

        module.GradScaler.step = watched

    def _watch_ddp(self, module):
        begin = module.DistributedDataParallel.__init__

        def watched(ddp, *arguments, **more):
            begin(ddp, *arguments, **more)
            if not ddp.gradient_as_bucket_view:
                self.bucket_bytes += sum(
                    p.numel() * p.element_size() for p in ddp.module.parameters()
                    if p.requires_grad and p.is_cuda)

        module.DistributedDataParallel.__init__ = watched

    def before_step(self):
        if self.before_first is None:
            self.before_first = self.recording.peaks.since("step")
        if self.bucket_bytes:
            time.sleep(WATCHDOG_SECONDS)

    def rows(self):
        rows, whole = [], self.recording.peaks.marks["whole"]
        if self.scaled and self.before_first:
            rows.append(_row("fp16: first updates skipped", self.before_first, whole))
        if self.bucket_bytes:
            high = {key: whole[key] + self.bucket_bytes for key in whole}
            rows.append(_row("DDP: copies of gradients held or let go", whole, high))
        return rows


def _row(what, low, high):
    row = {"what": what}
    row.update({"low_" + key: low[key] for key in low})
    row.update({"high_" + key: high[key] for key in high})
    return row
