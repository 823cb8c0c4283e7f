# SPDX-License-Identifier: MIT
"""Computes the small results that a script may decide on: masks, counts, flags, scalars.

A function mode sees each of PyTorch's functions that Python calls. It lets the function run as it
is, on the stand-in, and then computes the result on the CPU into the same bytes when the result is
small and all that it was made of is there (`memory` says what is worth what). What we cannot
compute is UNKNOWN: numbers that `reads` gives from there are of `unknown`, and decisions on them
are told.

A mode at the dispatcher would see more (what C++ calls, and the backward), but PyTorch's own code
asks whether such a mode is on and then takes other ways with other temporaries; this one is asked
for by one module of PyTorch, which is told that there is none (see `compiled`).
"""
from . import (compiled, counts, drawn, first_values, memory, nested, plausible, reads, unknown,
               words)

Cannot = memory.Cannot
_torch = None
_unsettled = set()  # names of functions that have been told of
_attention = None  # the first call's backend
_BACKENDS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}

# Asked all the time, with nothing to compute.
_NOTHING = frozenset((
    "__get__", "__set__", "__delete__", "size", "dim", "numel", "stride", "data_ptr",
    "is_contiguous", "backward", "register_hook", "requires_grad_", "record_stream", "__len__",
    "__hash__", "storage_offset", "untyped_storage", "element_size", "is_floating_point",
    "nelement",
    "has_names", "is_complex", "get_device", "detach", "detach_", "pin_memory", "is_pinned",
    "view", "expand", "permute", "transpose", "unsqueeze", "squeeze", "linear", "matmul",
    "layer_norm", "dropout", "gelu", "relu", "silu", "__deepcopy__", "share_memory_"))
_EMPTY = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"))
_CONSTANT = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
_FINITE = {"isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True}
_OVERWRITING = frozenset(("fill_", "zero_", "copy_"))
_INDEXING = frozenset(("__getitem__", "__setitem__", "index_put_", "index_put"))
_SCALER = frozenset(("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"))
_NOT_IN_PLACE = frozenset(("__invert__", "__index__", "__int__", "__init__", "__iter__"))


def attention():
    return _attention


def begin(torch):
    global _torch
    _torch = torch
    memory.begin(torch)
    counts.begin()
    mode = _make_mode(torch)
    compiled.begin(torch, mode)
    mode().__enter__()


def _make_mode(torch):
    class Values(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = getattr(func, "__name__", "")
            if name in _NOTHING:
                return func(*args, **(kwargs or {}))
            kwargs = kwargs or {}
            untouched = first_values.take(name, func, args, kwargs)
            if untouched is not None:
                return untouched
            special = _SPECIAL.get(name)
            if special:
                return special(name, func, args, kwargs)
            out = func(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                _settle(name, func, args, kwargs, out)
            return out

    return Values


# After a function has run: what is its result worth?


def _settle(name, func, args, kwargs, out):
    """Must not raise: what cannot be settled is unknown."""
    try:
        _settle_any(name, func, args, kwargs, out)
    except Exception as error:
        if name not in _unsettled:
            _unsettled.add(name)
            words.say("the numbers of %s() could not be followed: %s" % (name, words.why(error)))


def _settle_any(name, func, args, kwargs, out):
    if _is_in_place(name) and args:
        _settle_changed(name, func, args, kwargs)
    elif kwargs.get("out") is not None:
        _settle_many([kwargs["out"]], memory.UNKNOWN)
    elif isinstance(out, _torch.Tensor):
        if memory.is_plain(out):
            _settle_new(name, func, args, kwargs, out)
    elif isinstance(out, (tuple, list)) and out and isinstance(out[0], _torch.Tensor):
        _settle_tuple(name, func, args, kwargs, out)


def _is_in_place(name):
    if name.startswith("__"):
        return name.startswith("__i") and name not in _NOT_IN_PLACE
    return name.endswith("_")


def _wants(out):
    """Is this a new result on the GPU that can be computed?"""
    return out.is_cuda and memory.is_plain(out) and memory.fits(out)


def _settle_new(name, func, args, kwargs, out):
    if not out.is_cuda:
        if memory.marked_on_cpu or any(_is_cuda(one) for one in args):
            _settle_on_cpu(args, kwargs, out)
        return
    if not memory.fits(out):
        if name in _CONSTANT:
            memory.mark_constant(out, _CONSTANT[name])
        elif name in _FINITE:
            memory.mark_constant(out, _FINITE[name])
        return
    if memory.shares(out, args):
        return
    try:
        _fill(name, func, args, kwargs, out)
    except Exception:  # of any kind: the CPU has no such kernel, wants other arguments, ...
        _give_up(out)


def _is_cuda(thing):
    return isinstance(thing, _torch.Tensor) and thing.is_cuda


def _fill(name, func, args, kwargs, out):
    """Writes the result's numbers, or raises."""
    if name in _EMPTY:
        if out.dtype not in memory.INTEGERS:
            return
        memory.alias(out).zero_()
        memory.mark(out, memory.KNOWN)
    elif name in _CONSTANT:
        memory.alias(out).fill_(_CONSTANT[name])
        memory.mark(out, memory.KNOWN)
    elif name in plausible.RANDOM or (
            name in plausible.DRAWN and memory.worst(args) != memory.UNKNOWN):
        plausible.draw(func, args, kwargs, out)
    elif name in plausible.INDICES and memory.worst(args) == memory.UNKNOWN:
        plausible.spread(name, args[0], args, kwargs, out)
    elif name in _FINITE and memory.worst(args) == memory.UNKNOWN:
        memory.alias(out).fill_(_FINITE[name])
        memory.mark(out, memory.KNOWN)
    elif name in ("isin", "eq", "__eq__") and memory.worst(args) == memory.UNKNOWN:
        memory.alias(out).zero_()
        memory.mark(out, memory.PLAUSIBLE)
    else:
        _compute(name, func, args, kwargs, out)


def _compute(name, func, args, kwargs, out):
    worth = [memory.KNOWN]
    hosts, names = memory.hosts(args, kwargs, worth)
    if name == "isin" and worth[0] < memory.KNOWN:  # drawn words are none of the special ones
        memory.alias(out).zero_()
    elif name == "cuda":
        memory.alias(out).copy_(hosts[0])
    else:
        result = func(*hosts, **names)
        if result.size() != out.size():
            raise Cannot
        memory.alias(out).copy_(result.detach())
    memory.mark(out, worth[0])


def _give_up(out):
    """The result's numbers are unknown. Indices must still lie within bounds."""
    if out.dtype in memory.INTEGERS and out.numel() <= memory.FLOATS_MAX:
        memory.alias(out).zero_()
    memory.mark(out, memory.UNKNOWN)


def _settle_tuple(name, func, args, kwargs, out):
    wanted = [one for one in out if isinstance(one, _torch.Tensor) and _wants(one)
              and not memory.shares(one, args)]
    if not wanted:
        return
    try:
        if name in plausible.INDICES and memory.worst(args) == memory.UNKNOWN:
            plausible.spread(name, args[0], args, kwargs, out[1])
            return
        worth = [memory.KNOWN]
        hosts, names = memory.hosts(args, kwargs, worth)
        for one, result in zip(out, func(*hosts, **names)):
            _copy(one, result, worth[0])
    except Exception:
        for one in wanted:
            _give_up(one)


def _copy(out, result, worth):
    if isinstance(out, _torch.Tensor) and _wants(out) and out.size() == result.size():
        memory.alias(out).copy_(result.detach())
        memory.mark(out, worth)


def _settle_changed(name, func, args, kwargs):
    """A function has changed its first argument, or a list of them."""
    target = args[0]
    if name in _SCALER:  # here no gradient is infinite, and the scale stays
        return
    if isinstance(target, (list, tuple)):
        _settle_many(target, memory.UNKNOWN)
    elif isinstance(target, _torch.Tensor) and memory.is_plain(target):
        if target.is_cuda:
            _settle_changed_one(name, func, args, kwargs, target)
        elif memory.marked_on_cpu or any(_is_cuda(one) for one in args):
            _settle_on_cpu(args, kwargs, target)


def _settle_changed_one(name, func, args, kwargs, target):
    before = memory.level(target)
    if name == "masked_fill_":
        memory.begin_mask(target)
    overwrites = name in _OVERWRITING
    if not memory.fits(target) or (before == memory.UNKNOWN and not overwrites
                                   and name not in plausible.RANDOM):
        if before != memory.UNKNOWN:
            memory.mark(target, memory.UNKNOWN)
        return
    try:
        if name in plausible.RANDOM:
            if target.dtype in memory.INTEGERS or before != memory.UNKNOWN:
                plausible.draw(func, args, kwargs, target)
            return
        whole = target.numel() * target.element_size() == target.untyped_storage().nbytes()
        worth = [memory.KNOWN if overwrites and whole else before]
        hosts, names = memory.hosts(args[1:], kwargs, worth)
        if not name.startswith("__"):
            getattr(memory.alias(target), name)(*hosts, **names)
        else:
            func(memory.alias(target), *hosts, **names)
        memory.mark(target, worth[0])
    except Exception:
        memory.mark(target, memory.UNKNOWN)


def _settle_many(targets, worth):
    for one in targets:
        if isinstance(one, (list, tuple)):
            _settle_many(one, worth)
        elif isinstance(one, _torch.Tensor) and memory.is_plain(one) and memory.level(one) > worth:
            memory.mark(one, worth)


def _settle_on_cpu(args, kwargs, out):
    """Numbers that came from the GPU unknown stay unknown on the CPU."""
    if not memory.is_plain(out):
        return
    worth = min(memory.worst(args), memory.worst(kwargs))
    if worth == memory.KNOWN:
        return
    if not memory.shares(out, args):
        source = args[0] if args and _is_cuda(args[0]) else None
        if source is not None and source.size() == out.size():
            reads.bring(source, out, worth)
    memory.mark(out, min(worth, memory.level(out)))


# Functions with a way of their own.


def _counted(name, func, args, kwargs):
    """Functions whose result has a shape that depends on data."""
    expected, worth = None, [memory.KNOWN]
    if args and memory.is_plain(args[0]) and args[0].is_cuda:
        with _torch._C.DisableTorchFunction():
            try:
                expected = counts.expected(name, func, args, kwargs, worth)
            except Exception:  # wrong arguments: the function itself will say so
                expected = None
    if expected is None:
        out = func(*args, **kwargs)
    else:
        out = counts.run(func, args, kwargs, expected)
        if name in _INDEXING:
            made = out if isinstance(out, _torch.Tensor) else args[0]
            counts.in_backward(made.grad_fn, expected)
    with _torch._C.DisableTorchFunction():
        if name == "__setitem__":
            _settle_set(func, args)
        elif expected is not None and worth[0] == memory.UNKNOWN and name in counts.FINDS:
            plausible.every(args[0], out)
        else:
            _settle(name, func, args, kwargs, out)
    return out


def _settle_set(func, args):
    target = args[0]
    if not memory.is_plain(target) or not target.is_cuda:
        return
    worth = [memory.level(target)]
    try:
        if worth[0] == memory.UNKNOWN or not memory.fits(target):
            raise Cannot
        hosts, _ = memory.hosts(args[1:], {}, worth)
        func(memory.alias(target), *hosts)
        memory.mark(target, worth[0])
    except Exception:
        if worth[0] != memory.UNKNOWN or memory.level(target) != memory.UNKNOWN:
            memory.mark(target, memory.UNKNOWN)


def _draw(name, func, args, kwargs):
    """Random functions: the generator stands elsewhere afterwards."""
    with _torch._C.DisableTorchFunction():
        try:
            place = drawn.before(args, kwargs)
        except Exception:
            place = None
    out = func(*args, **kwargs)
    with _torch._C.DisableTorchFunction():
        if not isinstance(out, _torch.Tensor) or not drawn.settle(name, place, args, kwargs, out):
            _settle(name, func, args, kwargs, out)
    return out


def _attend(name, func, args, kwargs):
    """Notes which kernel PyTorch chooses for the first attention of the script."""
    global _attention
    if _attention is None:
        try:
            with _torch._C.DisableTorchFunction():
                _attention = _BACKENDS.get(int(_torch._fused_sdp_choice(*args, **kwargs)), "math")
        except Exception as error:
            words.say("which attention is chosen could not be asked: " + words.why(error))
            _attention = "unknown"
    return func(*args, **kwargs)


_SPECIAL = {"scaled_dot_product_attention": _attend,
            "_nested_tensor_from_mask_left_aligned": nested.left_aligned,
            "_nested_tensor_from_mask": nested.from_mask}
_SPECIAL.update(dict.fromkeys(counts.KINDS, _counted))
_SPECIAL.update(dict.fromkeys(drawn.KINDS, _draw))
_SPECIAL.update(reads.KINDS)
