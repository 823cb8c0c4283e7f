# SPDX-License-Identifier: MIT
"""A stand-in for PyTorch: the parts that the recorder touches, in the forms of several versions.

FAKE_TORCH says which: "2.11" (the default), "2.1" (fewer arguments, no torch.OutOfMemoryError),
"2.0" (the older recording call, no optimizer hooks), "cpu" (built without CUDA), "async" (an
allocator that cannot record). FAKE_TORCH_LOG names a file that receives one line for each call
that a test wants to see. A device has 1000 bytes; what does not fit raises the error.
"""
import inspect
import os
import signal
import sys
import types

FORM = os.environ.get("FAKE_TORCH", "2.11")
TOTAL = 1000

__version__ = {"cpu": "2.11.0+cpu", "async": "2.11.0"}.get(FORM, FORM + ".0")
version = types.SimpleNamespace(cuda=None if FORM == "cpu" else "13.0", hip=None)


def log(text):
    if os.environ.get("FAKE_TORCH_LOG"):
        with open(os.environ["FAKE_TORCH_LOG"], "a") as file:
            file.write(text + "\n")


class _OutOfMemoryError(RuntimeError):
    pass


if FORM != "2.1" and FORM != "2.0":
    OutOfMemoryError = _OutOfMemoryError


class _Allocator:
    used = 0
    entries = None
    observers = []


def _refuse(what):
    if FORM == "async":
        raise RuntimeError("cudaMallocAsync does not yet support %s." % what)


def _attach(observer):
    _refuse("attachOutOfMemoryObserver")
    _Allocator.observers.append(observer)


_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=_attach)


# torch.cuda

cuda = types.ModuleType("torch.cuda")
cuda.memory = types.ModuleType("torch.cuda.memory")
cuda.OutOfMemoryError = _OutOfMemoryError
cuda.initialized = False
cuda.queued = []


def _lazy_call(function):
    if cuda.initialized:
        function()
    else:
        cuda.queued.append(function)


def use(size=0):
    """What any first use of a GPU does, then takes `size` bytes."""
    if FORM == "cpu":
        raise AssertionError("Torch not compiled with CUDA enabled")
    if not cuda.initialized:
        log("cuda initialised")
        for function in cuda.queued:
            function()
        cuda.initialized = True
    if _Allocator.used + size > TOTAL:
        for observer in _Allocator.observers:
            observer(0, size, TOTAL, TOTAL - _Allocator.used)
        raise _OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes" % size)
    _Allocator.used += size


def _record_impl(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                 clear_history=False, compile_context=False, global_record_annotations=False,
                 skip_actions=None):
    log("record %s %s %s %d" % (enabled, context, stacks, max_entries))
    _Allocator.entries = max_entries


def _record_impl_21(enabled="all", context="all", stacks="all", max_entries=sys.maxsize,
                    device=None):
    _record_impl(enabled, context, stacks, max_entries)


def _record_20(enabled, record_context=True, trace_alloc_max_entries=1,
               trace_alloc_record_context=False, device=None, record_context_cpp=False):
    log("record %s %d %s" % (enabled, trace_alloc_max_entries, trace_alloc_record_context))
    _Allocator.entries = trace_alloc_max_entries


def _record_memory_history(enabled="all", *args, **kwargs):
    _refuse("recordHistory")
    return (_record_impl_21 if FORM == "2.1" else _record_impl)(enabled, *args, **kwargs)


_record_memory_history.__signature__ = inspect.signature(
    _record_impl_21 if FORM == "2.1" else _record_impl)


def _snapshot():
    _refuse("snapshot")
    if os.environ.get("FAKE_TORCH_SNAPSHOT") == "unpicklable":
        return {"segments": lambda: None}
    if os.environ.get("FAKE_TORCH_SNAPSHOT") == "memory":
        raise MemoryError("no host memory")
    if os.environ.get("FAKE_TORCH_SNAPSHOT") == "signal":  # one comes in the middle
        os.kill(os.getpid(), signal.SIGUSR2)
    return {"segments": [{"total_size": _Allocator.used}], "device_traces": [[]]}


def _memory_stats(device=None):
    log("memory_stats %s" % device)
    return {"reserved_bytes.all.allocated": _Allocator.used if device in (0, None) else 0,
            "allocated_bytes.all.current": _Allocator.used if device in (0, None) else 0}


def _mem_get_info(device=None):
    log("mem_get_info %s" % device)
    return TOTAL - _Allocator.used, TOTAL


cuda.memory._record_memory_history = _record_20 if FORM == "2.0" else _record_memory_history
cuda.memory._snapshot = _snapshot
cuda.memory.get_per_process_memory_fraction = lambda device=None: 1.0
cuda._lazy_call = _lazy_call
cuda.memory_stats = _memory_stats
cuda.mem_get_info = _mem_get_info
cuda.current_device = lambda: 0
cuda.device_count = lambda: 2
cuda.get_allocator_backend = lambda: "cudaMallocAsync" if FORM == "async" else "native"
cuda.get_device_properties = lambda index: types.SimpleNamespace(name="Fake", total_memory=TOTAL)

# torch.distributed

distributed = types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: "FAKE_GROUP_RANK" in os.environ,
    get_rank=lambda: int(os.environ["FAKE_GROUP_RANK"]))

# torch.optim

_step_hooks = []


class _Optimizer:
    def step(self):
        for hook in _step_hooks:
            hook(self, (), {})


optim = types.SimpleNamespace(SGD=_Optimizer)  # like PyTorch's, without the name `optimizer`
_module = types.ModuleType("torch.optim.optimizer")
if FORM != "2.0":
    _module.register_optimizer_step_post_hook = _step_hooks.append
sys.modules["torch.optim.optimizer"] = _module
