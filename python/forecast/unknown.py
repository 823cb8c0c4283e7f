# SPDX-License-Identifier: MIT
"""Numbers that nobody knows before the run, and the script's decisions on them.

`loss.item()` gives an UnknownFloat: it prints, adds and multiplies as a float does, and what comes
of that is unknown too. Only when the script decides on one (`if loss.item() < best`) is a warning
kept, once for each line, with the user's own line: the forecast took one way, a run may take the
other. Losses are taken to be finite: nothing here is ever NaN.
"""
import linecache

from . import words

WARNINGS_MAX = 100

warnings = []  # {"what": ..., "line": "train.py:41"}, in the order in which they were met
_lines = set()


def warn(what, line=None):
    line = line or words.line() or "?"
    if (what, line) in _lines or len(warnings) >= WARNINGS_MAX:
        return
    _lines.add((what, line))
    warnings.append({"what": what, "line": line})
    words.say("%s: %s" % (line, what))


def decide(value):
    """A decision on an unknown number: what was assumed it to be; True in an assertion."""
    line = words.line() or "?"
    warn("a decision depends on numbers that only a run knows", line)
    path, _, number = line.rpartition(":")
    if number.isdigit() and linecache.getline(path, int(number)).lstrip().startswith("assert"):
        return True
    return bool(value)


def number(value):
    """The unknown number of this value."""
    return UnknownFloat(value) if isinstance(value, float) else UnknownInt(value)


def numbers(values):
    """A list of lists of numbers, each unknown."""
    if isinstance(values, list):
        return [numbers(value) for value in values]
    return number(values) if isinstance(values, (int, float)) else values


def _arithmetic(base, name):
    calculate = getattr(base, name)

    def of_unknown(self, *others):
        result = calculate(self, *others)
        return number(result) if isinstance(result, (int, float)) else result

    return of_unknown


def _decision(base, name):
    compare = getattr(base, name)

    def of_unknown(self, *others):
        result = compare(self, *others)
        return result if result is NotImplemented else decide(result)

    return of_unknown


_ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv",
               "rfloordiv", "mod", "rmod", "pow", "rpow", "neg", "pos", "abs", "round")
_DECISIONS = ("lt", "le", "gt", "ge", "eq", "ne", "bool")


def _unknown(base, title):
    body = {"__%s__" % name: _arithmetic(base, "__%s__" % name) for name in _ARITHMETIC}
    body.update({"__%s__" % name: _decision(base, "__%s__" % name) for name in _DECISIONS})
    body["__hash__"] = base.__hash__
    body["__reduce__"] = lambda self: (base, (base(base.__repr__(self)),))  # elsewhere: a number
    body["__doc__"] = "A number that only a run knows."
    return type(title, (base,), body)


UnknownFloat = _unknown(float, "UnknownFloat")
UnknownInt = _unknown(int, "UnknownInt")
