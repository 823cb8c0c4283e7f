# SPDX-License-Identifier: MIT
"""Which process of a forecast this is: does it leave an answer, and under which rank?

A script is often many processes: a launcher, ranks, compile workers, workers of loaders. One of
each rank leaves rankR.json. No variable tells which: torchrun sets RANK, accelerate with one
process sets none, torch.multiprocessing.spawn gives the rank as an argument. So the first process
that makes a step with an optimizer, or runs out of memory, claims its rank, by a file that only one
can create; one that ends without either claims a rank that nobody holds, unless it is a helper.
"""
import os
import sys

_HELPERS = ("torch._inductor.compile_worker", "--multiprocessing-fork",
            "multiprocessing.forkserver", "multiprocessing.resource_tracker",
            "torch/_inductor/compile_worker")
CLAIM = "rank%d.claim"  # holds the number of the process


def is_helper():
    """Was this process started by a library of Python's, not by a user or a launcher?"""
    words = " ".join(getattr(sys, "orig_argv", None) or _command_line())
    return any(word in words for word in _HELPERS)


def _command_line():
    """Python 3.9 has no sys.orig_argv."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def rank_and_ranks(torch):
    """The process group knows best, once there is one; then what torchrun set."""
    group = getattr(torch, "distributed", None)
    if group and group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    values = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    rank, ranks = (int(value) if value.isdigit() else None for value in values)
    return rank or 0, ranks or (rank or 0) + 1


def claim(folder, rank):
    """True for the one process that may answer for this rank."""
    path = os.path.join(folder, CLAIM % rank)
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        with open(path) as file:
            return file.read() == str(os.getpid())
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    return True
