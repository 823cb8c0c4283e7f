# SPDX-License-Identifier: MIT
"""Keeps our function mode out of compiled code, and of the one place in PyTorch that asks for it.

torch.compile traces a function mode that is on the stack and breaks its graphs there, so a function
that was compiled runs with the mode taken off. nn.TransformerEncoder leaves its fast path in
evaluation when a function mode is on; it is told that there is none.
"""
import functools


def begin(torch, mode):
    _wrap_compile(torch, mode)
    _hide_mode(torch)


def _bare(torch, mode, function):
    overrides = torch.overrides

    @functools.wraps(function)
    def call(*args, **kwargs):
        stack = overrides._get_current_function_mode_stack()
        if not stack or not isinstance(stack[-1], mode):
            return function(*args, **kwargs)
        ours = overrides._pop_mode()
        try:
            return function(*args, **kwargs)
        finally:
            overrides._push_mode(ours)

    return call


def _wrap_compile(torch, mode):
    make = torch.compile

    @functools.wraps(make)
    def compile(model=None, *args, **kwargs):
        if model is None:
            return lambda later: compile(later, *args, **kwargs)
        made = make(model, *args, **kwargs)
        if isinstance(made, torch.nn.Module):
            made.forward = _bare(torch, mode, made.forward)
            return made
        return _bare(torch, mode, made)

    torch.compile = compile


def _hide_mode(torch):
    """Modules that name torch.overrides.has_torch_function ask about modes only by the way."""
    def has_torch_function(things):
        plain = (torch.Tensor, torch.nn.Parameter)
        return any(type(one) not in plain and hasattr(type(one), "__torch_function__")
                   and type(one).__torch_function__ is not torch._C._disabled_torch_function_impl
                   for one in things)

    torch.overrides.has_torch_function = has_torch_function
