# SPDX-License-Identifier: MIT
"""Runs something after a module has been imported, without importing it.

`after("safetensors.torch", fix)` calls fix(module) right behind the module's own code, so whoever
imports names from that module gets what fix left there. A fix that fails costs one line; the script
goes on.
"""
import sys

from . import words

_fixes = {}  # name of a module -> functions


def after(name, fix):
    if name in sys.modules:
        _apply(fix, sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _fixes.setdefault(name, []).append(fix)


def _apply(fix, module):
    try:
        fix(module)
    except Exception as error:
        words.say("%s could not be prepared for a forecast: %s" % (module.__name__,
                                                                   words.why(error)))


class _Finder:
    """Stands first in sys.meta_path; finds nothing itself, watches what the others find."""

    def find_spec(self, name, path=None, target=None):
        if name not in _fixes:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._watch(name, spec.loader)
                    return spec
        return None

    def _watch(self, name, loader):
        """Many programs only ask whether a module is there; what counts is that its code runs."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_then(module):
            loader.exec_module = execute
            execute(module)
            for fix in _fixes.pop(name, ()):
                _apply(fix, module)

        loader.exec_module = execute_then


_finder = _Finder()
