# SPDX-License-Identifier: MIT
"""Functions that read from the GPU: numbers leave the tensors here, and the script may decide.

What is KNOWN is read as it is. Of other numbers the script gets what was assumed, or one, as a
number of `unknown`; where Python takes only a truth, the decision is told at once.
"""
from . import memory, unknown


def bring(source, out, worth):
    """A copy to the CPU: larger ones are not made by the stand-in, unknown ones hold ones."""
    if worth == memory.UNKNOWN:
        if out.numel() <= memory.FLOATS_MAX:
            out.detach().fill_(1 if out.is_floating_point() else 0)
    elif memory.fits(source):
        out.detach().copy_(memory.alias(source))


def _item(name, func, args, kwargs):
    value = func(*args, **kwargs)
    with memory.torch._C.DisableTorchFunction():
        worth = memory.worst(args[0])
    if worth == memory.KNOWN:
        return value
    if worth == memory.UNKNOWN and args[0].dtype is not memory.torch.bool:
        value = 1.0 if isinstance(value, float) else 1
    return unknown.number(value) if isinstance(value, (int, float)) else value


def _tolist(name, func, args, kwargs):
    with memory.torch._C.DisableTorchFunction():
        worth = memory.worst(args[0])
        if worth == memory.KNOWN:
            return func(*args, **kwargs)
        there = args[0].cpu()
        bring(args[0], there, worth)
    return unknown.numbers(func(there))


def _truth(name, func, args, kwargs):
    value = func(*args, **kwargs)
    with memory.torch._C.DisableTorchFunction():
        worth = memory.worst(args[0])
    if worth == memory.KNOWN:
        return value
    return unknown.decide(value if worth == memory.PLAUSIBLE else False)


def _number(name, func, args, kwargs):
    """int(x), float(x) and x as an index must be plain numbers."""
    value = func(*args, **kwargs)
    with memory.torch._C.DisableTorchFunction():
        worth = memory.worst(args[0])
    if name == "__index__" and worth < memory.KNOWN:
        unknown.warn("an index or a length depends on numbers that only a run knows")
    return type(value)(1) if worth == memory.UNKNOWN else value


def _text(name, func, args, kwargs):
    """PyTorch prints a tensor by computing on the GPU; the numbers mean nothing here."""
    tensor = args[0]
    if not _is_cuda(tensor) or memory.worst(tensor) == memory.KNOWN:
        return func(*args, **kwargs)
    if name == "__format__" and not tensor.dim():
        return format(1.0 if tensor.is_floating_point() else 1, *args[1:])
    return "tensor(%s of unknown numbers, device='%s')" % (tuple(tensor.size()), tensor.device)


def _is_cuda(thing):
    return isinstance(thing, memory.torch.Tensor) and thing.is_cuda


KINDS = {"item": _item, "tolist": _tolist, "__bool__": _truth, "__int__": _number,
         "__float__": _number, "__index__": _number, "__repr__": _text, "__str__": _text,
         "__format__": _text}
