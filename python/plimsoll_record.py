# SPDX-License-Identifier: MIT
"""Records what PyTorch does with GPU memory, in a script that is not edited.

One file, no dependency, Python 3.8 or newer, PyTorch 2.1 or newer. Three ways in:

    plimsoll record -- python train.py --lr 1e-4        (the program of the same house)
    python -m plimsoll_record train.py --lr 1e-4        (this file alone)
    import plimsoll_record; plimsoll_record.start()     (a line in the script)

PyTorch keeps a bounded history of allocations with Python stacks; this file switches it on when
the process first uses CUDA, and writes it out, one file a rank, at an out-of-memory error, after
step N, on a signal, or at the end. Beside each snapshot stands a JSON record of what a snapshot
does not hold: the device's memory, statistics, settings, versions.

Whatever happens, the run goes on as it would have: the error is the same error, the traceback and
the exit status are the same, and a record that cannot be written costs one line on standard error.
This file never initialises CUDA and never imports torch; a process that uses neither is left alone.
"""
import atexit
import importlib.machinery
import importlib.util
import inspect
import json
import os
import pickle
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref

__all__ = ["start", "dump"]

FORMAT = 1  # of the JSON record
ENTRIES = 100000  # events that PyTorch keeps, by default
OOM_DUMPS_MAX = 4  # of errors that a program catches and survives
NAMES_MAX = 10000  # snapshots of one rank and reason in one folder
MESSAGE_MAX = 4000  # characters of an error's message in the record
ENVIRONMENT = "PLIMSOLL_RECORD_"
PICKLE_PROTOCOL = 4  # PyTorch's own viewer reads no newer one

# Who is this among the ranks? The first that is set answers.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK")

SETTINGS_VARIABLES = (
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
)


def _say(text):
    try:
        sys.stderr.write("plimsoll_record: %s\n" % text)
        sys.stderr.flush()
    except Exception:  # a closed standard error must not stop a run
        pass


def _why(error):
    return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300])


def _ask(function, *arguments):
    """What the function says, or None: the record takes what this version of PyTorch can tell."""
    try:
        return function(*arguments)
    except Exception:
        return None


def _get(thing, path):
    """The attribute `a.b.c` of a thing, or None."""
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


# Naming and writing files.


def _rank(torch):
    """The rank as a text of digits, or None. The process group knows best, once it exists."""
    group = _get(torch, "distributed")
    if group and _ask(group.is_available) and _ask(group.is_initialized):
        rank = _ask(group.get_rank)
        if isinstance(rank, int) and rank >= 0:
            return str(rank)
    for name in RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdigit():
            return value
    return None


def _free_name(folder, stem):
    """A path without its ending under which nothing stands yet: stem, stem-2, stem-3, ..."""
    for number in range(1, NAMES_MAX):
        path = os.path.join(folder, stem if number == 1 else "%s-%d" % (stem, number))
        if not os.path.exists(path + ".pickle") and not os.path.exists(path + ".json"):
            return path
    raise OSError("%s holds %d files named %s" % (folder, NAMES_MAX, stem))


def _write_whole(path, write):
    """Calls write(file), then puts the file in place: whole, or not at all. Returns its bytes."""
    temporary = "%s.tmp-%d" % (path, os.getpid())
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, path)
        return size
    except BaseException:
        _ask(os.unlink, temporary)
        raise


# What stands in the JSON record.


def _cuda_driver():
    """The newest CUDA that the driver serves, 13000 for 13.0. The driver answers this without a
    context; PyTorch, which asked for us once, no longer does."""
    import ctypes  # only here: a Python built without it records all the rest

    version = ctypes.c_int(0)
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value


def _versions(torch):
    driver_file = "/proc/driver/nvidia/version"
    driver = None
    if os.path.exists(driver_file):
        with open(driver_file) as file:
            driver = file.readline().strip()
    return {
        "torch": getattr(torch, "__version__", None) and str(torch.__version__),
        "cuda": _get(torch, "version.cuda"),
        "hip": _get(torch, "version.hip"),
        "cuda_driver": _ask(_cuda_driver),
        "driver": driver,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _settings(torch):
    return {
        "environment": {k: os.environ[k] for k in SETTINGS_VARIABLES if k in os.environ},
        "allocator_backend": _ask(_get(torch, "cuda.get_allocator_backend")),
        "memory_fraction": _ask(_get(torch, "cuda.get_per_process_memory_fraction"))
        or _ask(_get(torch, "cuda.memory.get_per_process_memory_fraction")),
    }


def _device(torch, index):
    """One device. Only a device that this process has used: asking another would put a context
    there."""
    stats = _ask(torch.cuda.memory_stats, index) or {}
    free_total = _ask(torch.cuda.mem_get_info, index) or (None, None)
    properties = _ask(torch.cuda.get_device_properties, index)
    return {
        "device": index,
        "name": getattr(properties, "name", None),
        "total_bytes": getattr(properties, "total_memory", None) or free_total[1],
        "driver_free_bytes": free_total[0],
        "driver_total_bytes": free_total[1],
        "memory_stats": {key: stats[key] for key in stats},
    }


def _devices(torch, extra):
    used = {extra, _ask(torch.cuda.current_device)}
    for index in range(_ask(torch.cuda.device_count) or 0):
        if (_ask(torch.cuda.memory_stats, index) or {}).get("reserved_bytes.all.allocated", 0):
            used.add(index)
    return [_device(torch, index) for index in sorted(i for i in used if isinstance(i, int))]


# The recorder: one a process.


class _Recorder:
    def __init__(self, out, entries, at_step, on_exit, stacks, signal_name, main_pid):
        self.out = os.path.abspath(out)
        self.entries = entries
        self.at_step = at_step
        self.on_exit = on_exit
        self.stacks = stacks
        self.signal_name = signal_name
        self.main = main_pid == os.getpid()  # the process that the user started
        self.pid = os.getpid()  # other processes are not this recorder's business
        self.torch = None
        self.cuda_used = False
        self.recording = False
        self.observing = False  # the allocator tells of its errors
        self.busy = threading.Lock()
        self.steps = weakref.WeakKeyDictionary()  # optimizer -> calls of its step
        self.step = 0  # the largest of them
        self.dumps = 0
        self.oom_count = 0  # errors that the allocator told of
        self.oom_unwritten = False  # the last of them has no file
        self.why_not = None  # why nothing is recorded
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._adopt)

    def _adopt(self):
        """A child forked before CUDA was used may use it itself; later ones cannot."""
        self.main = False
        self.busy = threading.Lock()
        if not self.cuda_used:
            self.pid = os.getpid()

    # Coming alive: torch is imported, then CUDA is used.

    def attach(self, torch):
        """torch has been imported. Everything here may fail, and the run must not notice."""
        self.torch = torch
        try:
            if not _get(torch, "version.cuda") and not _get(torch, "version.hip"):
                self.why_not = "this PyTorch was built without CUDA"
                return
            self._catch_signal()
            self._catch_uncaught()
            self._count_steps()
            torch.cuda._lazy_call(self.begin)  # now, or when CUDA is first used
        except Exception as error:
            self.why_not = "this PyTorch cannot be recorded (%s)" % _why(error)
            _say(self.why_not)

    def begin(self):
        """CUDA has been initialised."""
        if self.pid != os.getpid() or self.cuda_used:
            return
        self.cuda_used = True
        try:
            self._record_history()
            self.recording = True
            _say("%s: keeps the last %d memory events; files go to %s"
                 % (self._who(), self.entries, self.out))
        except Exception as error:
            self.why_not = "PyTorch refused to record its memory (%s)" % _why(error)
            _say(self.why_not)
        try:
            self.torch._C._cuda_attach_out_of_memory_observer(self._on_oom)
            self.observing = True
        except Exception as error:
            _say("PyTorch does not tell of out-of-memory errors; only one that ends the run is "
                 "written (%s)" % _why(error))

    def _record_history(self):
        """The arguments changed in 2.1; the function's signature says which ones it takes."""
        record = self.torch.cuda.memory._record_memory_history
        forms = (
            ("all", {"context": "alloc", "stacks": self.stacks, "max_entries": self.entries}),
            (True, {"record_context": True, "trace_alloc_max_entries": self.entries,
                    "trace_alloc_record_context": True}),
        )
        for enabled, arguments in forms:
            try:
                inspect.signature(record).bind(enabled, **arguments)
            except TypeError:
                continue
            record(enabled, **arguments)
            return
        raise TypeError("torch.cuda.memory._record_memory_history takes other arguments")

    def _catch_uncaught(self):
        """The error that ends the run is seen on its way out: also those that the allocator does
        not know of, such as a library that found no memory."""
        previous = sys.excepthook

        def hook(kind, value, trace):
            self._on_uncaught(value)
            previous(kind, value, trace)

        sys.excepthook = hook
        in_thread = threading.excepthook

        def thread_hook(arguments):
            self._on_uncaught(arguments.exc_value)
            in_thread(arguments)

        threading.excepthook = thread_hook

    def _catch_signal(self):
        if self.signal_name == "none":
            return
        number = getattr(signal, "SIG" + self.signal_name, None)
        try:
            if number is None:
                raise ValueError("this system has no SIG" + self.signal_name)
            if signal.getsignal(number) != signal.SIG_DFL:
                raise ValueError("the program handles it already")
            signal.signal(number, lambda *_: self._on_signal())
        except ValueError as error:  # also: not in the main thread
            _say("SIG%s will not write a file: %s" % (self.signal_name, error))

    def _count_steps(self):
        if not self.at_step:
            return
        # torch.optim takes the name `optimizer` away again, so the module is not its attribute.
        register = getattr(sys.modules.get("torch.optim.optimizer"),
                           "register_optimizer_step_post_hook", None)
        if not register:
            _say("this PyTorch does not tell of optimizer steps; step %d will not be seen"
                 % self.at_step)
            return
        register(self._on_step)

    # What makes a file.

    def _on_oom(self, device, asked, limit, free, *_):
        """Called by the allocator with the error already certain; must return, must not raise."""
        if self.pid != os.getpid():
            return
        try:
            self.oom_count += 1
            self.oom_unwritten = True
            if self.oom_count <= OOM_DUMPS_MAX:
                self.oom_unwritten = not self.dump(
                    "oom", {"device": device, "asked_bytes": asked, "limit_bytes": limit,
                            "driver_free_bytes": free})
            elif self.oom_count == OOM_DUMPS_MAX + 1:
                _say("more than %d out-of-memory errors were survived; from now on only the one "
                     "that ends the run is written" % OOM_DUMPS_MAX)
        except Exception as error:
            _say("could not write a record: " + _why(error))

    def _on_uncaught(self, error):
        """Skips what the allocator has told of already; a library's error it does not know."""
        if self.pid != os.getpid() or not self.cuda_used:
            return
        known = (_get(self.torch, "OutOfMemoryError"), _get(self.torch, "cuda.OutOfMemoryError"))
        known = isinstance(error, tuple(kind for kind in known if isinstance(kind, type)))
        if known and self.observing and not self.oom_unwritten:
            return
        if known or (isinstance(error, RuntimeError) and "out of memory" in str(error)):
            self.dump("oom", {"message": str(error)[:MESSAGE_MAX]})

    def _on_step(self, optimizer, *_):
        """After each optimizer.step. With several optimizers a step is done when the first of them
        has done it."""
        if self.pid != os.getpid():
            return
        try:
            count = self.steps[optimizer] = self.steps.get(optimizer, 0) + 1
        except TypeError:  # of a kind that cannot be told apart
            count = self.step + 1
        if count > self.step:
            self.step = count
            if count == self.at_step:
                self.dump("step", {"step": count})

    def _on_signal(self):
        if self.pid == os.getpid():
            self.dump("signal", {"signal": "SIG" + self.signal_name})

    def at_exit(self):
        if self.pid != os.getpid():
            return
        if self.on_exit and self.cuda_used:
            self.dump("exit", {})
        if self.cuda_used and self.at_step and self.step < self.at_step:
            _say("%s: step %d was not reached; %d calls of an optimizer's step were counted"
                 % (self._who(), self.at_step, self.step))
        elif self.cuda_used and not self.dumps and not self.oom_count and not self.on_exit:
            _say("%s: no out-of-memory error, nothing was written (--on-exit writes at the end)"
                 % self._who())
        elif self.main and not self.cuda_used and "torch.distributed.launcher" not in sys.modules:
            _say("nothing was recorded: " + (self.why_not or (
                "this process did not use CUDA" if self.torch else
                "this process did not import torch")))

    # Writing.

    def _who(self):
        rank = _rank(self.torch)
        return "rank%s" % rank if rank else "pid%d" % os.getpid()

    def dump(self, reason, details):
        """Writes the snapshot and its record. True when both are in place; never raises, but for
        what stops the program anyway (KeyboardInterrupt)."""
        if not self.cuda_used:
            _say("nothing to write (%s): %s" % (reason, self.why_not or "CUDA was not used yet"))
            return False
        if not self.busy.acquire(blocking=False):
            _say("a record is being written; this one (%s) is left out" % reason)
            return False
        try:
            return self._dump(reason, details)
        except Exception as error:
            _say("could not write a record to %s: %s" % (self.out, _why(error)))
            return False
        finally:
            self.busy.release()

    def _dump(self, reason, details):
        begun = time.time()
        os.makedirs(self.out, exist_ok=True)
        path = _free_name(self.out, "%s-%s" % (self._who(), reason))
        record = self._describe(reason, details, begun)
        try:
            snapshot = self.torch.cuda.memory._snapshot()
            record["snapshot_bytes"] = _write_whole(
                path + ".pickle", lambda file: pickle.dump(snapshot, file, PICKLE_PROTOCOL))
            record["snapshot"] = os.path.basename(path) + ".pickle"
        except Exception as error:  # the record is worth having without it
            record["snapshot_error"] = _why(error)
            _say("no snapshot: " + record["snapshot_error"])
        record["dump_seconds"] = round(time.time() - begun, 3)
        text = json.dumps(record, indent=1, default=str) + "\n"
        _write_whole(path + ".json", lambda file: file.write(text.encode()))
        self.dumps += 1
        _say("%s: wrote %s in %.2f s" % (self._who(), path + (
            ".pickle" if record["snapshot"] else ".json"), record["dump_seconds"]))
        return True

    def _describe(self, reason, details, now):
        torch = self.torch
        rank = _rank(torch)
        return {
            "plimsoll_record": FORMAT,
            "reason": reason,
            "details": details,
            "snapshot": None,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now)),
            "time_unix": now,
            "rank": int(rank) if rank else None,
            "host": _ask(socket.gethostname),
            "pid": os.getpid(),
            "command": sys.argv,
            "optimizer_steps": self.step if self.at_step else None,
            "oom_count": self.oom_count,
            "history": {"max_entries": self.entries, "context": "alloc", "stacks": self.stacks}
            if self.recording else None,
            "devices": _devices(torch, details.get("device")),
            "settings": _settings(torch),
            "versions": _versions(torch),
        }


# Seeing the import of torch without importing it.


class _TorchWatch:
    """Stands first in sys.meta_path until torch is imported, then steps aside."""

    def __init__(self, then):
        self.then = then

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._watch(spec.loader)
                    return spec
        return None

    def _watch(self, loader):
        """Many programs only ask whether torch is there; what counts is that it is run."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_then(module):
            del loader.exec_module  # the loader is itself again
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.then(module)

        loader.exec_module = execute_then


_recorder = None


def start(out="plimsoll-record", entries=ENTRIES, at_step=None, on_exit=False, stacks="python",
          signal="USR2", _main_pid=None):
    """Records this process from the first use of CUDA on.

    out      folder for the files, made when the first is written
    entries  memory events that are kept; older ones are lost
    at_step  also write after this many calls of an optimizer's step
    on_exit  also write when the process ends by itself
    stacks   "python", or "all" for C++ frames too, which are slow to gather
    signal   "USR1" or "USR2": also write on this signal; "none"

    The first call of a process counts; a later one says so and changes nothing."""
    global _recorder
    if _recorder and _recorder.pid == os.getpid():
        _say("recording was begun already; this start() changes nothing")
        return
    _recorder = _Recorder(out, int(entries), at_step and int(at_step), bool(on_exit), stacks,
                          signal, _main_pid or os.getpid())
    atexit.register(_recorder.at_exit)
    if "torch" in sys.modules:
        _recorder.attach(sys.modules["torch"])
    else:
        sys.meta_path.insert(0, _TorchWatch(_recorder.attach))


def dump(reason="call"):
    """Writes a snapshot and its record now, named by the reason. True when they are in place; never
    raises."""
    if not _recorder:
        _say("dump() before start(): nothing is recorded")
        return False
    return _recorder.dump("".join(c if c.isalnum() else "-" for c in str(reason))[:64], {})


# Starting a command so that every Python process under it records itself: a folder on PYTHONPATH
# whose sitecustomize.py Python imports at its start.


def _start_from_environment(folder):
    """Called by that sitecustomize.py. Must not raise."""
    try:
        _chain_sitecustomize(folder)
    except Exception as error:
        _say("another sitecustomize failed: " + _why(error))
    try:
        def value(name, default=None):
            return os.environ.get(ENVIRONMENT + name) or default
        start(value("OUT", "plimsoll-record"), value("ENTRIES", ENTRIES), value("AT_STEP"),
              value("ON_EXIT") == "1", value("STACKS", "python"), value("SIGNAL", "USR2"),
              int(value("PID", "0")) or None)
    except Exception as error:
        _say("nothing is recorded: " + _why(error))


def _chain_sitecustomize(folder):
    """Ours hides the sitecustomize of the system or of the user; run that one too."""
    others = [p for p in sys.path if os.path.abspath(p or ".") != os.path.abspath(folder)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


SITECUSTOMIZE = """\
import os
import plimsoll_record
plimsoll_record._start_from_environment(os.path.dirname(os.path.abspath(__file__)))
"""

USAGE = """\
usage: python -m plimsoll_record [options] SCRIPT [arguments]
       python -m plimsoll_record [options] -m MODULE [arguments]
       python -m plimsoll_record [options] -- COMMAND [arguments]

  --out DIR       folder for the files (plimsoll-record)
  --entries N     memory events that are kept (%d)
  --at-step N     also write after N calls of an optimizer's step
  --on-exit       also write when the process ends
  --stacks KIND   python or all (python)
  --signal NAME   also write on SIGUSR1 or SIGUSR2: USR1, USR2 or none (USR2)
""" % ENTRIES


def _parse(arguments):
    """Our options and the command after them; exits with 2 on wrong use, as a command does."""
    options = {"out": "plimsoll-record", "entries": str(ENTRIES), "at-step": "", "on-exit": "",
               "stacks": "python", "signal": "USR2"}
    python = [sys.executable] + subprocess._args_from_interpreter_flags()
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, given = word[2:].partition("=")
        if word in ("-h", "--help"):
            sys.stdout.write(USAGE)
            raise SystemExit(0)
        if word == "--":
            return options, rest
        if word == "-m":
            return options, python + ["-m"] + rest
        if not word.startswith("--") or name not in options or (not equals and not rest
                                                                and name != "on-exit"):
            sys.stderr.write("plimsoll_record: what is '%s'?\n%s" % (word, USAGE))
            raise SystemExit(2)
        options[name] = "1" if name == "on-exit" else given if equals else rest.pop(0)
    return options, python + rest if rest else []


def _check(options):
    for name in ("entries", "at-step"):
        if options[name] and not (options[name].isdigit() and int(options[name])):
            return "wanted a number of at least 1 for --%s, found '%s'" % (name, options[name])
    if options["stacks"] not in ("python", "all"):
        return "wanted python or all for --stacks, found '%s'" % options["stacks"]
    if options["signal"] not in ("USR1", "USR2", "none"):
        return "wanted USR1, USR2 or none for --signal, found '%s'" % options["signal"]
    return None


def _main(arguments):
    options, command = _parse(arguments)
    wrong = _check(options) or (None if command else "a script or a command is wanted")
    if wrong:
        sys.stderr.write("plimsoll_record: %s\n%s" % (wrong, USAGE))
        return 2
    folder = os.path.join(os.path.abspath(options["out"]), "python")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.abspath(__file__), "rb") as file:
            _write_whole(os.path.join(folder, "plimsoll_record.py"),
                         lambda copy: shutil.copyfileobj(file, copy))
        _write_whole(os.path.join(folder, "sitecustomize.py"),
                     lambda file: file.write(SITECUSTOMIZE.encode()))
    except OSError as error:
        _say("cannot write to %s: %s" % (folder, error.strerror))
        return 2
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder + (os.pathsep + path if path else "")
    os.environ[ENVIRONMENT + "PID"] = str(os.getpid())  # exec keeps it
    options["out"] = os.path.abspath(options["out"])
    for name, text in options.items():
        os.environ[ENVIRONMENT + name.upper().replace("-", "_")] = text
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        _say("cannot run '%s': %s" % (command[0], error.strerror))
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
