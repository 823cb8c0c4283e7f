# SPDX-License-Identifier: MIT
"""The peaks of evaluations, and how a script comes to its evaluation after few steps.

An evaluation is what lies between `model.eval()` and the next `model.train()`, or the end, when no
optimizer made a step in between: a teacher that stays in eval mode while a student trains is none.

Few scripts evaluate within the first steps. When these are done and the loop draws from a
DataLoader, that loader ends early, as if the data had been few: the script goes on to what follows
its epoch. The forecast ends when the script does, draws from that loader again, has trained on, or
has had its time. A loop without a loader gives no such handle; there the forecast ends at once.

Lightning and transformers' Trainer evaluate after a number of batches of their own; that number is
lowered to the steps asked for.
"""
import os
import threading
import weakref

from . import imports

SECONDS_MAX = 30  # for what follows the steps; an evaluation's peak comes in its first batches
EXTRA_STEPS_MAX = 2  # batches that a library had drawn ahead


class Evaluation:
    def __init__(self, recording):
        self.recording = recording
        self.rows = []
        self.running = False
        self.held = 0  # bytes allocated when it began
        self.depth = 0  # of calls of train() within each other
        self.ending = False  # the steps are done; what follows is on its way
        self.drawn = None  # the iterator that a batch came from since the last step
        self.ended = None  # the one that ends early
        self.extra_steps = 0

        for name in ("lightning.pytorch", "pytorch_lightning"):
            imports.after(name + ".loops.evaluation_loop", self._watch_lightning)
            imports.after(name + ".trainer.trainer", self._hurry_lightning)
        imports.after("transformers.trainer", self._hurry_trainer)
        imports.after("torch.utils.data.dataloader", self._watch_loaders)
        self._watch_modes()

    # Phases.

    def _watch_modes(self):
        module = self.recording.torch.nn.Module
        train = module.train

        def watched(model, mode=True):
            """Called once for a model by the script, then for each part by the model."""
            outermost = self.depth == 0
            self.depth += 1
            try:
                return train(model, mode)
            finally:
                self.depth -= 1
                if outermost and self.recording.peaks and not self.recording.ended:
                    self.close() if mode else self.open()

        module.train = watched

    def open(self):
        if not self.running:
            self.running = True
            self.recording.peaks.open("evaluation")
            self.held = self.recording.peaks.held()["held_allocated_bytes"]

    def close(self):
        """A phase in which nothing was allocated is a switch back and forth, and has no row."""
        if not self.running:
            return
        row = {"step": len(self.recording.steps), "seconds": self.recording.seconds()}
        row.update(self.recording.peaks.take("evaluation"))
        self.forget()
        if row["allocated_bytes"] > self.held:
            self.rows.append(row)

    def forget(self):
        """An optimizer made a step: this was no evaluation."""
        self.running = False
        self.recording.peaks.drop("evaluation")

    # Libraries that evaluate in their own time.

    def _watch_lightning(self, module):
        """Its loop puts each part's mode back by hand, without a call of train()."""
        run = module._EvaluationLoop.run

        def watched(loop):
            if not self.recording.peaks or self.recording.ended:
                return run(loop)
            self.open()
            try:
                return run(loop)
            finally:
                self.close()

        module._EvaluationLoop.run = watched

    def _hurry_lightning(self, module):
        fit = module.Trainer.fit

        def hurried(trainer, *args, **kwargs):
            if self.recording.wanted.stop and trainer.limit_train_batches == 1.0:
                trainer.limit_train_batches = (
                    self.recording.wanted.steps * trainer.accumulate_grad_batches)
            return fit(trainer, *args, **kwargs)

        module.Trainer.fit = hurried

    def _hurry_trainer(self, module):
        train, steps = module.Trainer.train, self.recording.wanted.steps

        def hurried(trainer, *args, **kwargs):
            told = trainer.args
            if self.recording.wanted.stop and (told.eval_steps or 0) > steps and (
                    getattr(told.eval_strategy, "value", told.eval_strategy) == "steps"):
                told.eval_steps = steps
            return train(trainer, *args, **kwargs)

        module.Trainer.train = hurried

    # Coming to the evaluation.

    def _watch_loaders(self, module):
        iterator = module._BaseDataLoaderIter
        draw, create = iterator.__next__, module.DataLoader.__iter__

        def drawn(one):
            if self.recording.ended or os.getpid() != self.recording.pid:
                return draw(one)
            if self.ending and one is self.ended:
                raise StopIteration
            batch = draw(one)
            self.drawn = one
            return batch

        def created(loader):
            if self.ending and loader is self.ended.plimsoll_loader():
                self.recording.end_by_steps()
            one = create(loader)
            one.plimsoll_loader = weakref.ref(loader)
            return one

        iterator.__next__ = drawn
        module.DataLoader.__iter__ = created

    def after_step(self):
        self.forget()
        self.drawn = None

    def go_on_or_end(self):
        """The steps asked for are done."""
        if self.drawn is None:
            self.recording.end_by_steps()
        self.ending, self.ended = True, self.drawn
        limit = threading.Timer(SECONDS_MAX, self.recording.end_by_steps)
        limit.daemon = True
        limit.start()

    def after_extra_step(self):
        self.forget()
        self.extra_steps += 1
        if self.extra_steps > EXTRA_STEPS_MAX:
            self.recording.end_by_steps()
