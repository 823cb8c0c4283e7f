# SPDX-License-Identifier: MIT
"""What is said on standard error, and which line of the user's own files it is about.

A line is the user's when its file belongs neither to Python, nor to an installed package, nor to
us. `words.line()` walks up the stack to the nearest one: "train.py:41".
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep  # lib/python3.x
_COMMANDS = os.path.join(sys.prefix, "bin") + os.sep  # torchrun, accelerate
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def say(text):
    try:
        sys.stderr.write("plimsoll forecast: %s\n" % text)
        sys.stderr.flush()
    except Exception:  # a closed standard error must not stop a run
        pass


def why(error):
    return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300])


def end(text, status):
    """Says one line and ends the process at once: nothing of the script runs any more."""
    say(text)
    leave(status)


def leave(status):
    """Ends the process without destructors and exit handlers: one of them might save a file."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(status)


def is_theirs(path):
    """Does the file belong to the user, not to Python, a package or us?"""
    if path.startswith("<") or path.startswith(HERE) or any(part in path for part in _PACKAGES):
        return False
    return not os.path.abspath(path).startswith((_PYTHON, _COMMANDS))


def frame_line(frame):
    """The nearest line of the user's, from this frame outwards, or None."""
    while frame is not None:
        path = frame.f_code.co_filename
        if is_theirs(path):
            return "%s:%d" % (_short(path), frame.f_lineno)
        frame = frame.f_back
    return None


def line():
    return frame_line(sys._getframe(1))


def trace_line(trace):
    """The innermost line of the user's in a traceback, or None."""
    found = None
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if is_theirs(path):
            found = "%s:%d" % (_short(path), trace.tb_lineno)
        trace = trace.tb_next
    return found


def _short(path):
    """A file below the current folder by its path from there."""
    full = os.path.abspath(path)
    try:
        near = os.path.relpath(full)
    except (OSError, ValueError):  # the folder is gone
        return full
    return full if near.startswith(os.pardir) else near
