# SPDX-License-Identifier: MIT
"""Large tensors on the CPU keep no numbers: the pages of a model's first weights are never touched.

A script that makes a model of 8 billion parameters on the CPU and moves it to the GPU would first
fill 32 GB that nothing here reads. So what overwrites a large floating-point tensor on the CPU is
left undone, as is what then changes, copies or converts it. Small tensors and all integers keep
their numbers, since scripts decide on these.

The random numbers that would have been drawn are still taken from PyTorch's generator (one draw an
element), so that what the script draws later, lengths of texts or the order of a data set, is what
a real run draws. That costs 2 ns an element and ends after DRAWS_MAX.
"""
NUMEL_MIN = (1 << 16) + 1  # elements of a tensor that is overwritten
MADE_BYTES_MIN = 16 << 20  # of one that randn() or ones() would make
DRAWS_MAX = 1 << 28  # half a second
CHUNK = 1 << 20

_UNIFORM = frozenset(("uniform_", "kaiming_uniform_", "xavier_uniform_", "trunc_normal_"))
_NORMAL = frozenset(("normal_", "kaiming_normal_", "xavier_normal_"))
_PLAIN = frozenset(("fill_", "zero_", "constant_", "ones_", "zeros_"))
_CHANGES = frozenset(("mul_", "add_", "sub_", "div_", "clamp_", "clamp_min_", "clamp_max_",
                      "erfinv_", "masked_fill_", "copy_", "__imul__", "__iadd__", "__itruediv__",
                      "__isub__"))
_CONVERTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
_COPIES = frozenset(("to", "clone", "contiguous", "type")) | frozenset(_CONVERTS)
_MAKES = {"randn": True, "rand": True, "ones": False, "full": False, "zeros": False}
_NAMES = _UNIFORM | _NORMAL | _PLAIN | _CHANGES | _COPIES | frozenset(_MAKES)

_torch = None
_drawn = 0


def begin(torch):
    global _torch
    _torch = torch


def take(name, func, args, kwargs):
    """The result on a tensor that keeps no numbers, or None: the function must run."""
    if name not in _NAMES:
        return None
    if name in _MAKES:
        return _make(name, args, kwargs)
    tensor = args[0] if args else kwargs.get("tensor")
    if not isinstance(tensor, _torch.Tensor) or tensor.is_cuda or tensor.numel() < NUMEL_MIN:
        return None
    if type(tensor) not in (_torch.Tensor, _torch.nn.Parameter) or (
            not tensor.is_floating_point() or tensor.device.type != "cpu"):
        return None
    if name in _COPIES:
        return _copy(name, func, tensor, args[1:], kwargs) if _is_untouched(tensor) else None
    return _change(name, tensor, kwargs)


def _is_untouched(tensor):
    return getattr(tensor.untyped_storage(), "plimsoll_untouched", False)


def _untouched(tensor):
    tensor.untyped_storage().plimsoll_untouched = True
    return tensor


def _change(name, tensor, kwargs):
    if name in _CHANGES:
        return tensor if _is_untouched(tensor) else None
    if name in _UNIFORM or name in _NORMAL:
        if kwargs.get("generator") is None:
            _advance(tensor.numel(), name in _NORMAL, tensor.dtype)
    return _untouched(tensor)


def _copy(name, func, tensor, args, kwargs):
    """A copy or a conversion on the CPU; a move to a device is the function's own work."""
    if name in _CONVERTS:
        dtype = getattr(_torch, _CONVERTS[name])
    else:
        told = list(args) + list(kwargs.values())
        if any(isinstance(one, (str, _torch.Tensor)) or (
                isinstance(one, _torch.device) and one.type != "cpu") for one in told):
            return None
        if kwargs.get("device", "cpu") not in ("cpu", _torch.device("cpu")) or any(
                type(one) is int for one in args):
            return None
        dtype = next((one for one in told if isinstance(one, _torch.dtype)), tensor.dtype)
    same = dtype == tensor.dtype and name != "clone" and not kwargs.get("copy")
    if same or (tensor.requires_grad and _torch.is_grad_enabled()):
        return None
    return _untouched(_torch.empty_like(tensor, dtype=dtype, requires_grad=False))


def _make(name, args, kwargs):
    """randn() and its like, where the result would be large and on the CPU."""
    if kwargs.get("generator") is not None or kwargs.get("out") is not None:
        return None
    dtype = kwargs.get("dtype") or _torch.get_default_dtype()
    device = kwargs.get("device") or _torch.get_default_device()
    if not dtype.is_floating_point or _torch.device(device).type != "cpu":
        return None
    sizes = args[0] if args and isinstance(args[0], (tuple, list)) else args
    sizes = kwargs.get("size", sizes) if name != "full" else sizes
    count = 1
    for size in sizes:
        if type(size) is not int:
            return None
        count *= size
    if count * dtype.itemsize < MADE_BYTES_MIN:
        return None
    more = {key: one for key, one in kwargs.items() if key not in ("size", "fill_value")}
    made = _torch.empty(tuple(sizes), **more)
    if _MAKES[name]:
        _advance(count, name == "randn", dtype)
    return _untouched(made)


def _advance(count, normal, dtype):
    """Draws as many random numbers as the fill would have: one of 32 bits an element, or of 64;
    normal numbers come in rows of 16, and the last row is drawn again when it is not whole."""
    global _drawn
    _drawn += count
    if _drawn > DRAWS_MAX:
        return
    if normal and count % 16:
        count += 16
    scratch = _torch.empty(min(count, CHUNK), dtype=_torch.float64 if dtype == _torch.float64
                           else _torch.float32)
    while count > 0:
        scratch[:count].uniform_()
        count -= CHUNK
