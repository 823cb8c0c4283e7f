# SPDX-License-Identifier: MIT
"""Contents for what a kernel would draw at random, or find in numbers that nobody knows.

Random results are drawn on the CPU, in the same bounds, from a generator's state that is put back
afterwards: the script's own random numbers stay as they are. Indices of the largest of unknown
numbers are spread evenly: of 4 experts, with 2 for each token, token 0 gets 0 and 1, token 1 gets
2 and 3, token 2 gets 0 and 1. A real router starts about so. Of a vocabulary the middle is taken,
far from the small numbers that end a text.
"""
from . import memory

WORDS_MIN = 1025  # from this many on indices are taken for words, not for experts or classes
STRIDE = 7919  # a prime: neighbours get different words

RANDOM = frozenset(("rand", "rand_like", "randn", "randn_like", "randint", "randint_like",
                    "randperm", "normal", "bernoulli", "normal_", "uniform_", "random_",
                    "bernoulli_", "exponential_", "geometric_", "log_normal_", "cauchy_"))
# Random in their result, with numbers of their own as input.
DRAWN = frozenset(("multinomial", "poisson", "binomial", "feature_dropout", "alpha_dropout",
                   "rrelu", "gumbel_softmax", "_standard_gamma", "_sample_dirichlet"))
# name -> does the result come with the values, as (values, indices)?
INDICES = {"argmax": False, "argmin": False, "argsort": False, "multinomial": False, "topk": True,
           "sort": True, "max": True, "min": True, "kthvalue": True, "median": True, "mode": True,
           "msort": True}


def draw(func, args, kwargs, out):
    """Fills the small result of a random function; the level is PLAUSIBLE at most."""
    torch = memory.torch
    if not memory.fits(out):
        return
    worth = [memory.PLAUSIBLE]
    kwargs = {name: one for name, one in kwargs.items() if name not in ("generator", "pin_memory")}
    in_place = any(one is out for one in args[:1])
    state = torch.get_rng_state()
    try:
        if in_place:
            rest, kwargs = memory.hosts(args[1:], kwargs, worth)
            func(memory.alias(out), *rest, **kwargs)
        else:
            args = [_shape_of(one) if func.__name__.endswith("_like") else one for one in args]
            args, kwargs = memory.hosts(args, kwargs, worth)
            memory.alias(out).copy_(func(*args, **kwargs).detach())
        memory.mark(out, worth[0])
    finally:
        torch.set_rng_state(state)


def _shape_of(thing):
    """rand_like(x) takes the shape of x, not its numbers."""
    if isinstance(thing, memory.torch.Tensor):
        return memory.torch.empty(thing.size(), dtype=thing.dtype)
    return thing


def spread(name, source, args, kwargs, indices):
    """Fills the indices that a function found in the unknown numbers of `source`."""
    torch = memory.torch
    if not memory.is_plain(indices) or not memory.fits(indices) or not source.dim():
        return
    dim = _dim(name, args, kwargs)
    if dim is None:  # of the whole: one index
        many, found = source.numel(), 1
        rows = torch.zeros(indices.size(), dtype=torch.int64)
        columns = rows
    else:
        keeps = indices.dim() == source.dim()  # else the dimension is gone
        many = source.size(dim)
        found = indices.size(dim) if keeps else 1
        along = dim % source.dim() if keeps else None
        flat = torch.arange(indices.numel() // found).reshape(
            [size for at, size in enumerate(indices.size()) if at != along])
        rows = flat.unsqueeze(dim).expand(indices.size()) if keeps else flat
        columns = torch.arange(found)
        if keeps:
            shape = [1] * source.dim()
            shape[dim] = found
            columns = columns.reshape(shape)
        else:
            columns = columns[0]
    if many >= WORDS_MIN:
        values = many // 2 + rows * STRIDE + columns
    else:
        values = rows * found + columns
    memory.alias(indices).copy_(values % many)
    memory.mark(indices, memory.PLAUSIBLE)


def _dim(name, args, kwargs):
    """The dimension that the function looks along, or None for the whole."""
    if name == "multinomial":
        return -1
    at = 2 if name in ("topk", "kthvalue") else 1
    dim = kwargs.get("dim", args[at] if len(args) > at else None)
    if isinstance(dim, bool) or not isinstance(dim, int):
        return -1 if name in ("topk", "sort", "argsort", "kthvalue", "mode") else 0 if (
            name == "msort") else None
    return dim


def every(source, places):
    """Fills the places of ones in unknown numbers where every element was counted: all of them, so
    that what is picked by these places later is as many as it would be."""
    torch = memory.torch
    parts = places if isinstance(places, tuple) else (
        places.unbind(1) if places.dim() == 2 else (places,))
    if not source.dim() or not parts or not memory.fits(parts[0]):
        return
    size = source.size() if len(parts) == source.dim() else source.size()[:1]  # rows of boxes
    found = torch.unravel_index(torch.arange(size.numel()), size)
    for part, numbers in zip(parts, found):
        memory.alias(part).copy_(numbers)
        memory.mark(part, memory.PLAUSIBLE)
