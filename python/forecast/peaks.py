# SPDX-License-Identifier: MIT
"""PyTorch's peaks since a moment, noted without taking them away from the script.

PyTorch keeps one peak since its last reset. Three ask for it: the steps (since the step before),
an evaluation (since it began) and the script itself, which may reset the peak too. So the
statistics are read and reset in one place, `fold()`, which raises every mark that is kept here.

    marks     step   since the last call of an optimizer's step
              whole  since the start of the process
              shown  since the script's own reset: what the script reads
"""

KEYS = ("allocated_bytes", "reserved_bytes")


class Peaks:
    def __init__(self, torch):
        self.cuda = torch.cuda
        self.read = {"allocated_bytes": torch.cuda.max_memory_allocated,
                     "reserved_bytes": torch.cuda.max_memory_reserved}
        self.reset = torch.cuda.reset_peak_memory_stats
        self.marks = {name: dict.fromkeys(KEYS, 0) for name in ("step", "whole", "shown")}
        self._show()

    def fold(self):
        """Raises every mark to what PyTorch has noted since, and resets PyTorch's note."""
        now = self.now()
        for mark in self.marks.values():
            for key in KEYS:
                mark[key] = max(mark[key], now[key])
        self.reset()

    def now(self):
        return {key: self.read[key]() for key in KEYS}

    def since(self, name):
        """The mark as it stands, what is not folded yet included."""
        now = self.now()
        return {key: max(self.marks[name][key], now[key]) for key in KEYS}

    def take(self, name):
        """The mark, which begins anew."""
        self.fold()
        taken, self.marks[name] = self.marks[name], dict.fromkeys(KEYS, 0)
        return taken

    def open(self, name):
        """Begins a mark of its own, such as an evaluation's; take it, then drop it."""
        self.fold()
        self.marks[name] = dict.fromkeys(KEYS, 0)

    def drop(self, name):
        self.marks.pop(name, None)

    def held(self):
        return {"held_allocated_bytes": self.cuda.memory_allocated(),
                "held_reserved_bytes": self.cuda.memory_reserved()}

    def _show(self):
        """The script's own questions are answered as if nobody else had asked."""
        def reset(device=None):
            self.fold()
            self.marks["shown"] = dict.fromkeys(KEYS, 0)
            if device is not None:  # another device has no marks here
                self.reset(device)

        def shown(key):
            read = self.read[key]

            def ask(device=None):
                return max(read(device), self.marks["shown"][key] if device is None else 0)

            return ask

        for module in (self.cuda, self.cuda.memory):
            module.reset_peak_memory_stats = reset
            module.max_memory_allocated = shown("allocated_bytes")
            module.max_memory_reserved = shown("reserved_bytes")
