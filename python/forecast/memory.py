# SPDX-License-Identifier: MIT
"""What the stand-in's memory holds, and how much it is worth.

A tensor "on the GPU" lies at an address of this process, so a small one can be computed on the CPU
in place: `alias(t)` is a CPU tensor over the same bytes. Kernels write nothing there; what is true
is what we have written. Each storage carries a level:

    UNKNOWN    stale bytes: no kernel ran (the default on the GPU)
    PLAUSIBLE  computed from random or assumed numbers: another run might decide otherwise
    KNOWN      what the card would hold (the default on the CPU)

The level is an attribute of the storage's Python object, which PyTorch keeps as long as the storage
lives; a storage at the same address later starts anew. A result is worth what its worst input is.
"""
import ctypes

UNKNOWN, PLAUSIBLE, KNOWN = 0, 1, 2
BYTES_MAX = 8 << 20  # of a result that is computed; masks of 2048 x 2048 fit
FLOATS_MAX = 1 << 16  # elements of a floating-point result

torch = None
INTEGERS = frozenset()  # the kinds of data that scripts decide on
PLAIN = ()  # kinds of tensors that have bytes of their own
marked_on_cpu = False  # has any tensor on the CPU come from unknown bytes?


def begin(module):
    global torch, INTEGERS, PLAIN
    torch = module
    INTEGERS = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32,
                          torch.int64))
    PLAIN = (torch.Tensor, torch.nn.Parameter)


class Cannot(Exception):
    """A value that is not there to be computed with."""


def is_plain(thing):
    """Has the tensor bytes of its own? Subclasses have not, nor what vmap sees of a batch."""
    return (type(thing) in PLAIN and thing.layout is torch.strided and not thing.is_nested
            and not torch._C._functorch.is_functorch_wrapped_tensor(thing))


def level(tensor):
    return getattr(tensor.untyped_storage(), "plimsoll_level",
                   UNKNOWN if tensor.is_cuda else KNOWN)


def mark(tensor, worth):
    global marked_on_cpu
    storage = tensor.untyped_storage()
    storage.plimsoll_level = worth
    if hasattr(storage, "plimsoll_constant"):
        del storage.plimsoll_constant
    if not tensor.is_cuda and worth < KNOWN:
        marked_on_cpu = True


def mark_constant(tensor, value):
    """Every element is this number, also where they are too many to be written."""
    mark(tensor, KNOWN)
    tensor.untyped_storage().plimsoll_constant = value


def fits(tensor):
    """Is the tensor small enough to be computed?"""
    count = tensor.numel()
    if tensor.dtype in INTEGERS or hasattr(tensor.untyped_storage(), "plimsoll_mask"):
        return 0 < count * tensor.element_size() <= BYTES_MAX
    return 0 < count <= FLOATS_MAX


def begin_mask(tensor):
    """A constant that is about to be filled where a mask is true is written as a whole, though it
    has too many numbers for others of its kind: scripts decide on such masks."""
    storage = tensor.untyped_storage()
    constant = getattr(storage, "plimsoll_constant", None)
    if constant is None or tensor.numel() * tensor.element_size() > BYTES_MAX:
        return
    storage.plimsoll_mask = True
    alias(tensor).fill_(constant)


def alias(tensor):
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    if not count:
        return torch.empty(tensor.size(), dtype=tensor.dtype)
    raw = (ctypes.c_byte * (count * tensor.element_size())).from_address(storage.data_ptr())
    whole = torch.frombuffer(raw, dtype=tensor.dtype, count=count)
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def host(thing, worth):
    """The argument of a function as the CPU takes it. `worth` is a list of one level, lowered to
    that of the worst tensor found. Raises Cannot for a tensor whose bytes mean nothing."""
    if isinstance(thing, torch.Tensor):
        return _host_tensor(thing, worth)
    if isinstance(thing, torch.Size):
        return thing
    if isinstance(thing, (list, tuple)):
        return type(thing)([host(one, worth) for one in thing])
    if isinstance(thing, torch.device) and thing.type == "cuda":
        return torch.device("cpu")
    if isinstance(thing, str) and thing.startswith("cuda"):
        return "cpu"
    if isinstance(thing, torch.Generator):
        raise Cannot
    return thing


def _host_tensor(tensor, worth):
    if not is_plain(tensor):
        raise Cannot
    worth[0] = min(worth[0], level(tensor))
    if worth[0] == UNKNOWN:
        raise Cannot
    if not tensor.is_cuda:
        return tensor.detach()
    constant = getattr(tensor.untyped_storage(), "plimsoll_constant", None)
    if constant is not None:
        return torch.full((), constant, dtype=tensor.dtype).expand(tensor.size())
    if not fits(tensor):
        raise Cannot
    return alias(tensor)


def hosts(args, kwargs, worth):
    return ([host(one, worth) for one in args],
            {name: host(one, worth) for name, one in kwargs.items()})


def shares(tensor, thing):
    """Has the tensor the bytes of one of these arguments: is it a view, or the argument itself?"""
    if isinstance(thing, torch.Tensor):
        return (is_plain(thing) and thing.is_cuda
                and thing.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr())
    if isinstance(thing, (list, tuple)):
        return any(shares(tensor, one) for one in thing)
    return False


def worst(thing):
    """The lowest level among the tensors of the arguments."""
    if isinstance(thing, torch.Tensor):
        if not is_plain(thing):  # a subclass keeps its own numbers, on the CPU at least
            return UNKNOWN if thing.is_cuda else KNOWN
        return level(thing)
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, (list, tuple)):
        return min([worst(one) for one in thing], default=KNOWN)
    return KNOWN
