# SPDX-License-Identifier: MIT
"""What the command asks for: the JSON file that PLIMSOLL_FORECAST names.

    {"steps": 3, "out": "/tmp/x", "harmless": "overlay", "stop": true}

steps     calls of each optimizer's step after which the answer is complete
out       folder for the answers, one a rank; private to this forecast, also for files of ours
harmless  "overlay": the script runs over a private copy of its folders; "hooks": it does not
stop      end the script then (the default), or let it run to its end
"""
import json
import os

from . import words


class Settings:
    def __init__(self, given):
        self.steps = int(given["steps"])
        self.out = os.path.abspath(given["out"])
        self.harmless = given["harmless"]
        self.stop = bool(given.get("stop", True))
        if self.steps < 1:
            raise ValueError("steps are %d" % self.steps)
        if self.harmless not in ("overlay", "hooks"):
            raise ValueError("harmless is '%s'" % self.harmless)


def read():
    path = os.environ["PLIMSOLL_FORECAST"]
    try:
        with open(path) as file:
            return Settings(json.load(file))
    except (OSError, KeyError, TypeError, ValueError) as error:
        words.end("the settings of the forecast in %s cannot be read: %s"
                  % (path, words.why(error)), 3)
