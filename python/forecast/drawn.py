# SPDX-License-Identifier: MIT
"""Random functions on the GPU: which numbers the card would have drawn (philox), where the result
is small. What these functions do not cover is drawn on the CPU (plausible)."""
from . import memory, philox


def _bounds(args, kwargs, first, names, defaults):
    """Numbers that may stand by place, from args[first] on, or by name."""
    given = list(args[first:first + len(names)])
    found = [kwargs.get(name, one) for name, one in zip(names, defaults)]
    for at, one in enumerate(given):
        found[at] = one
    return found


def _low_high(args, kwargs, first):
    """randint(high, size) or randint(low, high, size); `first`: where the numbers begin."""
    numbers = [one for one in args[first:first + 2] if isinstance(one, int)]
    low, high = kwargs.get("low", 0), kwargs.get("high")
    if len(numbers) == 2:
        low, high = numbers
    elif numbers and high is None:
        high = numbers[0]
    elif numbers:
        low = numbers[0]
    return low, high


def _unit(place, out, args, kwargs):
    return philox.uniform(place, out.numel(), 0.0, 1.0, out.dtype)


def _standard(place, out, args, kwargs):
    return philox.normal(place, out.numel(), 0.0, 1.0, out.dtype)


def _uniform(place, out, args, kwargs):
    low, high = _bounds(args, kwargs, 1, ("from", "to"), (0.0, 1.0))
    return philox.uniform(place, out.numel(), low, high, out.dtype)


def _normal(place, out, args, kwargs):
    mean, deviation = _bounds(args, kwargs, 1, ("mean", "std"), (0.0, 1.0))
    return philox.normal(place, out.numel(), mean, deviation, out.dtype)


def _integers(place, out, args, kwargs):
    return philox.integers(place, out.numel(), *_low_high(args, kwargs, 0), out.dtype)


def _integers_like(place, out, args, kwargs):
    return philox.integers(place, out.numel(), *_low_high(args, kwargs, 1), out.dtype)


def _flags(place, out, args, kwargs):
    chance = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    if isinstance(chance, memory.torch.Tensor):
        raise memory.Cannot
    return philox.flags(place, out.numel(), chance, out.dtype)


def _flags_of(place, out, args, kwargs):
    if len(args) > 1 or "p" in kwargs:
        raise memory.Cannot
    return philox.flags_of(place, memory.host(args[0], [memory.KNOWN]), out.dtype)


KINDS = {"rand": _unit, "rand_like": _unit, "randn": _standard, "randn_like": _standard,
         "randint": _integers, "randint_like": _integers_like, "uniform_": _uniform,
         "normal_": _normal, "bernoulli_": _flags, "bernoulli": _flags_of}


def before(args, kwargs):
    """The place of the generator that the function will draw from; None: not on the GPU."""
    torch = memory.torch
    device = kwargs.get("device")
    if device is None and args and isinstance(args[0], torch.Tensor):
        device = args[0].device
    if device is None:
        device = torch.get_default_device()
    device = torch.device(device) if not isinstance(device, torch.device) else device
    if device.type != "cuda":
        return None
    return philox.place(device, kwargs.get("generator"))


def settle(name, place, args, kwargs, out):
    """Writes the numbers that were drawn. False: somebody else has to."""
    if place is None or not memory.is_plain(out) or not out.is_cuda or not memory.fits(out) or (
            not out.is_contiguous() or out.dtype == memory.torch.float64):
        return False
    worth = memory.KNOWN
    if name == "bernoulli":
        worth = memory.worst(args)
    try:
        numbers = KINDS[name](place, out, args, kwargs)
    except Exception:  # of any kind: the numbers are drawn on the CPU instead
        return False
    memory.alias(out).copy_(numbers.view(out.size()))
    memory.mark(out, worth)
    return True
