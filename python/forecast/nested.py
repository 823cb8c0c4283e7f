# SPDX-License-Identifier: MIT
"""Nested tensors of a padding mask, as nn.TransformerEncoder makes them in evaluation.

PyTorch counts each row's words on the GPU and copies the counts to the CPU, where the nested tensor
keeps them: everything after that follows from its sizes alone. Here the counts are taken from the
mask's numbers. PyTorch's two functions are one call each for a script, so their steps are made here
one by one, with the same temporaries in the same order (aten's NestedTensorMath, PyTorch 2.4 to
2.11).
"""
from . import counts, memory, unknown

_CANNOT = ("a nested tensor would be made of a padding mask whose numbers are unknown; the padded "
           "form is forecast, which takes more")
_MAYBE = ("a nested tensor is made of a padding mask that depends on numbers that only a run knows")


def _mask(mask):
    """The mask on the CPU, or None."""
    worth = [memory.KNOWN]
    try:
        known = memory.host(mask, worth)
    except memory.Cannot:
        return None
    if worth[0] < memory.KNOWN:
        unknown.warn(_MAYBE)
    return known


def _arguments(padded, mask, mask_check=True):
    return padded, mask, mask_check


def left_aligned(name, func, args, kwargs):
    """Do the words of every row stand at its beginning? One flag is read from the GPU."""
    torch = memory.torch
    padded, mask, _ = _arguments(*args, **kwargs)
    if not padded.is_cuda:
        return func(padded, mask)
    with torch._C.DisableTorchFunction():
        known = _mask(mask)
        if known is None:
            unknown.warn(_CANNOT)
            return False
        return counts.run(func, (padded, mask), {},
                          [int(func(torch.empty(*mask.shape, 0), known))])


def from_mask(name, func, args, kwargs):
    torch = memory.torch
    padded, mask, mask_check = _arguments(*args, **kwargs)
    if not padded.is_cuda:
        return func(padded, mask, mask_check)
    with torch._C.DisableTorchFunction():
        known = _mask(mask)
        if known is None:  # every row is whole
            unknown.warn(_CANNOT)
            known = torch.ones(mask.shape, dtype=torch.bool)
        rows, length = mask.shape
        sizes = mask
        padding = torch.zeros((rows, 1), dtype=mask.dtype, device=mask.device)
        numbers = torch.cat((sizes, padding), 1).to(torch.int32).argmin(1)
        sizes = sizes.cumsum(1).select(1, length - 1)
        numbers = numbers.to(sizes.dtype)
        if mask_check:
            counts.run(sizes.equal, (numbers,), {}, [1])
        sizes = sizes.reshape(rows, 1)
        width = torch.full_like(sizes, padded.size(2))
        sizes = torch.cat((sizes, width), 1).cpu()
        sizes[:, 0] = known.sum(1)
        sizes[:, 1] = padded.size(2)
        return torch._nested_from_padded(padded, sizes, False)
