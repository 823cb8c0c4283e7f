# SPDX-License-Identifier: MIT
"""What runs inside the process of a script that is forecast.

A library stands in for the GPU: memory is address space and kernels do nothing. These files do the
rest, each named after one noun: `settings` and `process` say what is asked of whom, `refusal` what
cannot be forecast, `recording` notes the peaks and leaves the answer, `values` computes the small
results that a script decides on (`memory`, `counts`, `plausible`, `reads`
and `unknown` help), `first_values`
leaves the weights of a large model unmade, `compiled` keeps all this out of compiled code, and
`writes`, `savers`, `trackers` keep the user's files and accounts as they are.

Nothing is imported here but the standard library until the script imports torch; a process that
does not use CUDA is left alone, but for its files.
"""


def begin():
    """Called once by sitecustomize.py, before any line of the script."""
    from . import imports, recording, refusal, savers, settings, trackers, writes

    refusal.check_platform()
    wanted = settings.read()
    writes.begin(wanted)
    trackers.begin(wanted)
    savers.begin()
    refusal.begin()
    imports.after("torch", lambda torch: recording.attach(torch, wanted))
