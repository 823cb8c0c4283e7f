# SPDX-License-Identifier: MIT
"""Shapes that depend on data: what an operator reads back from the GPU before it can allocate.

`x[mask]` counts the mask's ones on the GPU and reads the count. No kernel counts here, so the count
is worked out on the CPU first and handed to the stand-in, which answers the next small reads with
it, in order (`plm_phantom_counts`). Where the numbers are not known, every element is counted: the
most memory that the line can need, and a warning says so. The places that such a line finds are
then those of every element, so that what a script picks by them is as many as on a card.
"""
import ctypes

from . import memory, unknown

COUNTS_MAX = 8  # reads of one operator

_library = None


def begin():
    global _library
    _library = ctypes.CDLL(None)
    _library.plm_phantom_counts.argtypes = (ctypes.POINTER(ctypes.c_int64), ctypes.c_int)
    _library.plm_phantom_counts.restype = None


def run(func, args, kwargs, counts):
    """Calls the function while the stand-in answers with these counts."""
    counts = counts[:COUNTS_MAX]
    _library.plm_phantom_counts((ctypes.c_int64 * len(counts))(*counts), len(counts))
    try:
        return func(*args, **kwargs)
    finally:
        _library.plm_phantom_counts(None, 0)


def in_backward(node, counts):
    """The backward of x[mask] and of x[mask] = y counts the mask again, in a thread of PyTorch's:
    the stand-in is told there, right before the node runs."""
    if node is None or "Index" not in node.name():
        return
    reads = (counts * COUNTS_MAX)[:COUNTS_MAX]

    def before(_):
        _library.plm_phantom_counts((ctypes.c_int64 * len(reads))(*reads), len(reads))

    def after(*_):
        _library.plm_phantom_counts(None, 0)

    node.register_prehook(before)
    node.register_hook(after)


def _host(tensor, worth):
    return memory.host(tensor, worth)


# One function a kind of operator: (name, func, args, kwargs, worth) -> its reads, or None when it
# reads nothing that we know of. Raises Cannot when the numbers are not there.


def _found(name, func, args, kwargs, worth):
    """nonzero and its like: how many ones."""
    if name == "where" and (len(args) > 1 or len(kwargs) > (0 if args else 1)):
        return None
    return [int(_host(args[0], worth).count_nonzero())]


def _selected(name, func, args, kwargs, worth):
    mask = args[1] if len(args) > 1 else kwargs["mask"]
    both = memory.torch.broadcast_shapes(args[0].size(), mask.size())
    return [int(_host(mask, worth).expand(both).count_nonzero())]


def _masks(args):
    """The masks on the GPU within the index of x[...] or x[...] = y."""
    index = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    return [one for one in index if isinstance(one, memory.torch.Tensor) and one.is_cuda
            and one.dtype in (memory.torch.bool, memory.torch.uint8)]


def _indexed(name, func, args, kwargs, worth):
    return [int(_host(mask, worth).count_nonzero()) for mask in _masks(args)] or None


def _distinct(name, func, args, kwargs, worth):
    hosts, names = memory.hosts(args, kwargs, worth)
    result = func(*hosts, **names)
    result = result[0] if isinstance(result, tuple) else result
    return [result.size(_unique_dim(args, kwargs) or 0)]


def _unique_dim(args, kwargs):
    return kwargs.get("dim")


def _bins(name, func, args, kwargs, worth):
    numbers = _host(args[0], worth)
    if not numbers.numel():
        return None
    ends = [int(numbers.min()), int(numbers.max())]
    return ends + ends  # some versions ask twice


def _repeated(name, func, args, kwargs, worth):
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats", args[0])
    if not isinstance(repeats, memory.torch.Tensor) or not repeats.is_cuda or (
            kwargs.get("output_size") is not None):
        return None
    repeats = _host(repeats, worth)
    if repeats.numel() == 1:  # expanded over the other
        repeats = repeats.reshape(-1).expand(args[0].numel() if kwargs.get("dim") is None
                                             else args[0].size(kwargs["dim"]))
    return [int(repeats.sum()), 1]  # how many, and whether none is negative


def _classes(name, func, args, kwargs, worth):
    given = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    return [int(_host(args[0], worth).max())] if given == -1 else None


def _same(name, func, args, kwargs, worth):
    hosts, names = memory.hosts(args, kwargs, worth)
    return [int(func(*hosts, **names))]


def _valid(name, func, args, kwargs, worth):
    """multinomial asks, in older versions, whether all is finite, and whether a row is zero."""
    return [1, 0]


FINDS = frozenset(("nonzero", "argwhere", "where", "nms"))  # what gives places

def _kept(name, func, args, kwargs, worth):
    """torchvision's suppression of boxes that overlap better ones."""
    hosts, names = memory.hosts(args, kwargs, worth)
    return [func(*hosts, **names).numel()]


KINDS = {"multinomial": _valid, "nms": _kept, "nonzero": _found, "argwhere": _found, "where": _found,
         "masked_select": _selected,
         "__getitem__": _indexed, "__setitem__": _indexed, "index_put_": _indexed,
         "index_put": _indexed, "unique": _distinct, "unique_consecutive": _distinct,
         "_unique2": _distinct, "_return_output": _distinct, "_return_inverse": _distinct,
         "_return_counts": _distinct, "_return_inverse_and_counts": _distinct,
         "unique_dim": _distinct, "bincount": _bins, "repeat_interleave": _repeated,
         "one_hot": _classes, "equal": _same, "allclose": _same}


def expected(name, func, args, kwargs, worth):
    """The reads of this call, or None; `worth` is lowered to the level of the numbers."""
    kind = KINDS[name]
    try:
        reads = kind(name, func, args, kwargs, worth)
    except memory.Cannot:
        worth[0] = memory.UNKNOWN
        reads = _most(name, args, kwargs)
    if reads is not None and worth[0] < memory.KNOWN:
        if name in ("equal", "allclose"):
            unknown.warn("a comparison depends on numbers that only a run knows")
        elif worth[0] == memory.UNKNOWN:
            unknown.warn("%s() has a shape that depends on unknown numbers: every element is "
                         "counted" % name.strip("_"))
        else:
            unknown.warn("%s() has a shape that depends on numbers that only a run knows: an even "
                         "or random spread is taken" % name.strip("_"))
    return reads


def _most(name, args, kwargs):
    """The reads when every element counts."""
    source = args[0]
    if name in ("__getitem__", "__setitem__", "index_put_", "index_put"):
        return [mask.numel() for mask in _masks(args)] or None
    if name == "where" and (len(args) > 1 or kwargs):
        return None
    if name in ("equal", "allclose"):
        return [1]
    if name == "bincount":
        minimum = kwargs.get("minlength", args[2] if len(args) > 2 else 0)
        return [0, max(minimum - 1, 0)] * 2
    if name == "one_hot":
        given = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
        return [0] if given == -1 else None
    if name == "repeat_interleave":
        return [source.numel(), 1]
    if name == "masked_select":
        mask = args[1] if len(args) > 1 else kwargs["mask"]
        return [memory.torch.broadcast_shapes(source.size(), mask.size()).numel()]
    if name == "nms":
        return [source.size(0)]
    dim = _unique_dim(args, kwargs)
    return [source.numel() if dim is None else source.size(dim)]
