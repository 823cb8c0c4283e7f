# SPDX-License-Identifier: MIT
"""Python imports this file at the start of each process of a forecast, because its folder stands
first on PYTHONPATH. It makes the files beside it the package `plimsoll_forecast`, lets that begin,
and then runs the sitecustomize that it hides: the user's or the system's.

The folder leaves sys.path at once, so that no file here hides a module of the same name; children
find the folder again by the environment.
"""
import importlib.machinery
import importlib.util
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def _run(name, path, folders=None):
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    module = importlib.util.module_from_spec(spec)
    if folders:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _run_theirs():
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec and spec.origin:
        try:
            _run("sitecustomize", spec.origin)
        except Exception as error:
            sys.stderr.write("plimsoll forecast: another sitecustomize failed: %s: %s\n"
                             % (type(error).__name__, error))


sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != FOLDER]
if os.environ.get("PLIMSOLL_FORECAST"):
    _run("plimsoll_forecast", os.path.join(FOLDER, "__init__.py"), [FOLDER]).begin()
_run_theirs()
