# SPDX-License-Identifier: MIT
"""The files that a rank leaves for the command: rankR.pickle, an ordinary memory snapshot, then
rankR.json. The JSON comes last and whole, so where it stands the other is complete.
"""
import json
import os
import pickle
import platform
import time

from . import process, words, writes

WAIT_SECONDS = 60  # for the other ranks, which may be compiling
PICKLE_PROTOCOL = 4  # PyTorch's own viewer reads no newer one


def _path(folder, rank, ending):
    return os.path.join(folder, "rank%d.%s" % (rank, ending))


def is_there(folder, rank):
    return writes.plain.exists(_path(folder, rank, "json"))


def write(torch, folder, noted, snapshot=None):
    rank, ranks = process.rank_and_ranks(torch)
    said = {"torch": str(torch.__version__), "cuda": torch.version.cuda,
            "python": platform.python_version(), "device": torch.cuda.get_device_name(),
            "rank": rank, "ranks": ranks}
    said.update(noted)
    said["cudnn"] = _cudnn_is_loaded()
    said["skipped_writes"] = writes.skipped
    snapshot = snapshot or torch.cuda.memory._snapshot()
    with writes.plain.open(_path(folder, rank, "pickle"), "wb") as file:
        pickle.dump(snapshot, file, PICKLE_PROTOCOL)
    path = _path(folder, rank, "json")
    with writes.plain.open(path + ".part", "w") as file:
        json.dump(said, file, indent=1)
    writes.plain.replace(path + ".part", path)


def _cudnn_is_loaded():
    """cuDNN loads its inner libraries when it is first asked for something."""
    try:
        with writes.plain.open("/proc/self/maps") as file:
            return "libcudnn_engines" in file.read()
    except OSError:
        return False


def wait_for_others(folder, rank, ranks):
    """The first rank keeps the store through which the others meet; when it goes before they have
    answered, they fail."""
    until = time.time() + WAIT_SECONDS
    while time.time() < until:
        missing = [r for r in range(ranks) if r != rank and not is_there(folder, r)]
        if not missing:
            return
        time.sleep(0.02)
    words.say("ranks %s have not answered after %d s" % (missing, WAIT_SECONDS))
