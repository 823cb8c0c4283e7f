# SPDX-License-Identifier: MIT
"""The recorder, from outside: scripts run under it, with a stand-in for PyTorch.

usage: test_record.py [PLIMSOLL]    with the program, `plimsoll record` is tested too
"""
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake")
RECORDER = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None

OOM = "import torch\ntorch.use(400)\ntorch.use(700)\n"
FINE = "import torch\ntorch.use(400)\n"

# Stands in for the driver's library, within the process of the script.
DRIVER = """
import ctypes
class Driver:
    def __init__(self, name):
        assert name == "libcuda.so.1", name
    def cuDriverGetVersion(self, out):
        out._obj.value = 13000
        return %d
ctypes.CDLL = Driver
"""


class Outcome:
    def __init__(self, status, out, err, folder):
        self.status, self.out, self.err = status, out, err
        self.folder = folder

    def files(self):
        if not os.path.isdir(self.folder):
            return []
        return sorted(name for name in os.listdir(self.folder) if name != "python")

    def record(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return json.load(file)

    def snapshot(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return pickle.load(file)


class Recording(unittest.TestCase):
    """`way` is how the recorder is started; the tests below run each way."""

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="plimsoll-test-")
        self.addCleanup(shutil.rmtree, self.place, True)

    def path(self, name):
        return os.path.join(self.place, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def environment(self, more):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("PLIMSOLL", "FAKE", "SLURM", "RANK", "LOCAL_RANK", "PMI"))}
        kept.update({"PYTHONPATH": FAKE, "PYTHONDONTWRITEBYTECODE": "1", "RANK": "0",
                     "FAKE_TORCH_LOG": self.path("log")})
        kept.update(more)
        return {k: v for k, v in kept.items() if v is not None}

    def command(self, options, script, arguments):
        """python -m plimsoll_record: the file is found by its folder."""
        raise NotImplementedError

    def popen(self, script, options=(), arguments=(), out="out", **more):
        name = self.write("train.py", script)
        return subprocess.Popen(
            self.command(["--out", self.path(out)] + list(options), name, list(arguments)),
            env=self.environment(more), cwd=self.place, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)

    def run_script(self, script, options=(), arguments=(), out="out", **more):
        process = self.popen(script, options, arguments, out, **more)
        stdout, stderr = process.communicate(timeout=60)
        return Outcome(process.returncode, stdout, stderr, self.path(out))

    def plain(self, script, arguments=()):
        name = self.write("train.py", script)
        done = subprocess.run([sys.executable, name] + list(arguments), env=self.environment({}),
                              cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=60)
        return Outcome(done.returncode, done.stdout, done.stderr, None)

    def log(self):
        with open(self.path("log")) as file:
            return file.read().splitlines()


class Cases:
    """Mixed into one class for each way."""

    def test_an_error_is_written_and_goes_on_unchanged(self):
        got = self.run_script(OOM)
        want = self.plain(OOM)
        self.assertEqual(got.status, want.status)
        self.assertEqual(got.status, 1)
        self.assertTrue(got.err.endswith(want.err), got.err)  # the traceback, to the letter
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])
        self.assertEqual(got.snapshot("rank0-oom.pickle")["segments"][0]["total_size"], 400)
        record = got.record("rank0-oom.json")
        self.assertEqual(record["reason"], "oom")
        self.assertEqual(record["details"], {"device": 0, "asked_bytes": 700, "limit_bytes": 1000,
                                             "driver_free_bytes": 600})
        self.assertEqual(record["rank"], 0)
        self.assertEqual(record["snapshot"], "rank0-oom.pickle")
        self.assertEqual(record["snapshot_bytes"],
                         os.path.getsize(os.path.join(got.folder, "rank0-oom.pickle")))
        device = record["devices"][0]
        self.assertEqual(device["total_bytes"], 1000)
        self.assertEqual(device["driver_free_bytes"], 600)
        self.assertEqual(device["memory_stats"]["allocated_bytes.all.current"], 400)
        self.assertEqual(record["versions"]["torch"], "2.11.0")
        self.assertEqual(record["settings"]["allocator_backend"], "native")

    def test_an_error_that_is_caught_stays_caught(self):
        got = self.run_script("import torch\ntry:\n    torch.use(2000)\n"
                              "except torch.OutOfMemoryError as error:\n    print(error)\n")
        self.assertEqual(got.status, 0)
        self.assertEqual(got.out, "CUDA out of memory. Tried to allocate 2000 bytes\n")
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])

    def test_many_caught_errors_write_few_files_and_the_last_one_is_among_them(self):
        got = self.run_script(
            "import torch\nfor i in range(9):\n    try:\n        torch.use(2000 + i)\n"
            "    except torch.OutOfMemoryError:\n        pass\ntorch.use(3000)\n")
        self.assertEqual(got.status, 1)
        records = [name for name in got.files() if name.endswith(".json")]
        self.assertEqual(len(records), 5)
        self.assertEqual(got.record("rank0-oom-5.json")["details"],
                         {"message": "CUDA out of memory. Tried to allocate 3000 bytes"})

    def test_an_error_that_the_allocator_does_not_know_is_written_too(self):
        got = self.run_script(FINE + "raise RuntimeError('CUDA error: out of memory')\n")
        self.assertEqual(got.status, 1)
        self.assertEqual(got.record("rank0-oom.json")["details"],
                         {"message": "CUDA error: out of memory"})

    def test_an_error_in_a_thread_is_written(self):
        got = self.run_script("import threading, torch\nt = threading.Thread("
                              "target=torch.use, args=(2000,))\nt.start()\nt.join()\n")
        self.assertEqual(got.status, 0)
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])

    def test_the_history_is_asked_for_as_each_version_takes_it(self):
        for form, want in (("2.11", "record all alloc python 321"),
                           ("2.1", "record all alloc python 321"),
                           ("2.0", "record True 321 True")):
            got = self.run_script(FINE, ["--entries", "321"], FAKE_TORCH=form)
            self.assertEqual(got.status, 0, got.err)
            self.assertEqual(self.log()[:2], ["cuda initialised", want])
            os.unlink(self.path("log"))

    def test_an_older_version_writes_its_errors_too(self):
        for form in ("2.1", "2.0"):
            got = self.run_script(OOM, out="out" + form, FAKE_TORCH=form)
            self.assertEqual(got.status, 1)
            self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])

    def test_step_n_is_written_once_the_optimizer_has_made_it(self):
        steps = FINE + ("a, b = torch.optim.SGD(), torch.optim.SGD()\n"
                        "for i in range(5):\n    torch.use(1)\n    a.step(); b.step()\n")
        got = self.run_script(steps, ["--at-step", "3"])
        self.assertEqual(got.status, 0, got.err)
        self.assertEqual(got.files(), ["rank0-step.json", "rank0-step.pickle"])
        self.assertEqual(got.record("rank0-step.json")["optimizer_steps"], 3)
        self.assertEqual(got.snapshot("rank0-step.pickle")["segments"][0]["total_size"], 403)

    def test_a_step_that_never_came_is_said(self):
        got = self.run_script(FINE + "torch.optim.SGD().step()\n", ["--at-step=3"])
        self.assertEqual(got.files(), [])
        self.assertIn("step 3 was not reached; 1 calls of an optimizer's step were counted",
                      got.err)
        got = self.run_script(FINE, ["--at-step", "3"], FAKE_TORCH="2.0")
        self.assertIn("does not tell of optimizer steps", got.err)

    def test_the_end_is_written_when_asked(self):
        got = self.run_script(FINE + "raise SystemExit(7)\n", ["--on-exit"])
        self.assertEqual(got.status, 7)
        self.assertEqual(got.files(), ["rank0-exit.json", "rank0-exit.pickle"])
        got = self.run_script(FINE, out="other")
        self.assertEqual(got.files(), [])
        self.assertIn("no out-of-memory error, nothing was written", got.err)

    def test_a_signal_writes_and_the_run_goes_on(self):
        process = self.popen(FINE + "print('ready', flush=True)\ninput()\nprint('on')\n")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGUSR2)
        line = ""
        while "wrote" not in line:
            line = process.stderr.readline()
            self.assertTrue(line, "the run ended")
        out, _ = process.communicate("\n", timeout=60)
        self.assertEqual((process.returncode, out), (0, "on\n"))
        self.assertEqual(sorted(os.listdir(self.path("out")))[-2:],
                         ["rank0-signal.json", "rank0-signal.pickle"])

    def test_other_signals_end_the_run_as_before(self):
        process = self.popen(FINE + "print('ready', flush=True)\ninput()\n")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_ranks_are_named_by_the_first_that_knows(self):
        for more, name in (({"RANK": "3", "SLURM_PROCID": "9"}, "rank3"),
                           ({"RANK": None, "SLURM_PROCID": "9"}, "rank9"),
                           ({"RANK": None, "LOCAL_RANK": "1"}, "rank1"),
                           ({"RANK": "x", "OMPI_COMM_WORLD_RANK": "4"}, "rank4"),
                           ({"RANK": "3", "FAKE_GROUP_RANK": "5"}, "rank5")):
            got = self.run_script(OOM, out=name, **more)
            self.assertEqual(got.files(), [name + "-oom.json", name + "-oom.pickle"])
        got = self.run_script(OOM, RANK=None)
        self.assertRegex(got.files()[0], r"^pid\d+-oom\.json$")
        self.assertIsNone(got.record(got.files()[0])["rank"])

    def test_a_file_of_an_earlier_run_is_not_overwritten(self):
        self.run_script(OOM)
        got = self.run_script(OOM)
        self.assertEqual(got.files(), ["rank0-oom-2.json", "rank0-oom-2.pickle",
                                       "rank0-oom.json", "rank0-oom.pickle"])

    def test_a_snapshot_whose_record_is_missing_is_not_overwritten(self):
        os.mkdir(self.path("out"))
        self.write("out/rank0-oom.pickle", "precious")
        got = self.run_script(OOM)
        self.assertIn("rank0-oom-2.pickle", got.files())

    def test_a_signal_in_the_middle_of_a_dump_is_left_out(self):
        got = self.run_script(OOM, FAKE_TORCH_SNAPSHOT="signal")
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])
        self.assertIn("a record is being written; this one (signal) is left out", got.err)

    def test_a_folder_that_goes_away_costs_a_line_and_not_the_run(self):
        spoil = "import os, shutil\nshutil.rmtree('out', True)\nopen('out', 'w').close()\n"
        got = self.run_script(spoil + OOM)
        want = self.plain(spoil + OOM)
        self.assertEqual(got.status, 1)
        self.assertTrue(got.err.endswith(want.err), got.err)
        self.assertIn("could not write a record", got.err)

    def test_a_snapshot_that_fails_leaves_the_record_and_no_half_file(self):
        for how, text in (("unpicklable", "lambda"), ("memory", "no host memory")):
            got = self.run_script(OOM, out=how, FAKE_TORCH_SNAPSHOT=how)
            self.assertEqual(got.status, 1)
            self.assertEqual(got.files(), ["rank0-oom.json"])
            record = got.record("rank0-oom.json")
            self.assertIsNone(record["snapshot"])
            self.assertIn(text, record["snapshot_error"])

    def test_an_allocator_that_cannot_record_lets_the_script_run(self):
        got = self.run_script(OOM, FAKE_TORCH="async")
        self.assertEqual(got.status, 1)
        self.assertIn("refused to record its memory", got.err)
        self.assertEqual(got.files(), ["rank0-oom.json"])
        self.assertIsNone(got.record("rank0-oom.json")["history"])

    def test_without_cuda_or_torch_the_script_runs_and_one_line_says_so(self):
        for script, form, text in (
                ("print(5)\n", "2.11", "this process did not import torch"),
                ("import torch\nprint(5)\n", "2.11", "this process did not use CUDA"),
                ("import torch\nprint(5)\n", "cpu", "this PyTorch was built without CUDA")):
            got = self.run_script(script, FAKE_TORCH=form)
            self.assertEqual((got.status, got.out), (0, "5\n"))
            self.assertEqual(got.err, "plimsoll_record: nothing was recorded: %s\n" % text)

    def test_only_a_device_that_is_used_is_asked(self):
        self.run_script(OOM)
        self.assertNotIn("mem_get_info 1", self.log())

    def test_a_process_that_does_not_use_cuda_does_not_begin_to(self):
        self.run_script("import torch\n")
        self.assertFalse(os.path.exists(self.path("log")))

    def test_looking_for_torch_is_not_importing_it(self):
        got = self.run_script("import importlib.util\nprint(importlib.util.find_spec('torch')"
                              " is not None)\n" + OOM)
        self.assertEqual(got.out, "True\n")
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])

    def test_a_forked_child_keeps_out_of_its_parents_record(self):
        child = ("import os\npid = os.fork()\nif pid == 0:\n    try:\n        torch.use(2000)\n"
                 "    except torch.OutOfMemoryError:\n        pass\n    os._exit(0)\n"
                 "os.waitpid(pid, 0)\n")
        self.assertEqual(self.run_script(FINE + child, out="after").files(), [])
        self.assertEqual(len(self.run_script("import torch\n" + child, out="before").files()), 2)

    def test_children_record_themselves(self):
        got = self.run_script("import os, subprocess, sys\nsys.exit(subprocess.call("
                              "[sys.executable, '-c', %r], env=dict(os.environ, RANK='6')))\n" % OOM)
        self.assertEqual(got.status, 1)
        self.assertEqual(got.files(), ["rank6-oom.json", "rank6-oom.pickle"])

    def test_arguments_and_streams_pass_through(self):
        script = "import sys\nprint(sys.argv[1:], __name__, sys.stdin.read())\n"
        process = self.popen(script, ["--signal", "none"], ["--out", "x", "a b", "--", "-m", ""])
        out, _ = process.communicate("in", timeout=60)
        self.assertEqual(out, "['--out', 'x', 'a b', '--', '-m', ''] __main__ in\n")

    def test_another_sitecustomize_still_runs(self):
        os.mkdir(self.path("site"))
        self.write("site/sitecustomize.py", "import os\nif 'PLIMSOLL_RECORD_OUT' in os.environ:\n"
                                            "    print('theirs')\n")
        got = self.run_script(OOM, PYTHONPATH=self.path("site") + os.pathsep + FAKE)
        self.assertEqual(got.out, "theirs\n")
        self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"])
        self.write("site/sitecustomize.py", "raise ValueError('broken')\n")
        got = self.run_script(FINE, PYTHONPATH=self.path("site") + os.pathsep + FAKE)
        self.assertEqual(got.status, 0)
        self.assertIn("another sitecustomize failed: ValueError: broken", got.err)

    def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(self):
        self.write("flat", "")
        got = self.run_script("print('ran')\n", out="flat/out")
        self.assertEqual((got.status, got.out), (2, ""))
        self.assertIn("/flat", got.err)

    def test_wrong_use_is_refused(self):
        for options in (["--entries", "0"], ["--at-step", "x"], ["--bogus"], ["--signal", "KILL"],
                        ["--stacks", "c"]):
            got = self.run_script("print('ran')\n", options)
            self.assertEqual((got.status, got.out), (2, ""), options)
            self.assertTrue(got.err)


class ByModule(Cases, Recording):
    """python -m plimsoll_record SCRIPT: from the command on it is what the program does, so with
    the program at hand only what comes before is tested twice."""

    OWN = ("unchanged", "wrong_use", "refused", "arguments", "sitecustomize", "module", "step_n")

    def setUp(self):
        if PROGRAM and not any(word in self._testMethodName for word in self.OWN):
            self.skipTest("tested by the program")
        super().setUp()

    def command(self, options, script, arguments):
        return [sys.executable, os.path.join(RECORDER, "plimsoll_record.py")] + options + [
            script] + arguments

    def test_a_module_and_a_command_can_be_run(self):
        self.write("mod.py", OOM)
        for words, out in ((["-m", "mod"], "m"), (["--", sys.executable, "mod.py"], "c")):
            done = subprocess.run(
                [sys.executable, "-m", "plimsoll_record", "--out", self.path(out)] + words,
                env=self.environment({"PYTHONPATH": FAKE + os.pathsep + RECORDER}),
                cwd=self.place, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("rank0-oom.pickle", os.listdir(self.path(out)))


@unittest.skipUnless(PROGRAM, "the program was not given")
class ByProgram(Cases, Recording):
    """plimsoll record -- python SCRIPT"""

    def command(self, options, script, arguments):
        return [PROGRAM, "record"] + options + ["--", sys.executable, script] + arguments

    def test_a_command_that_is_not_there_is_said_as_a_shell_does(self):
        done = subprocess.run([PROGRAM, "record", "--out", self.path("out"), "--", "no-such-thing"],
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-thing", done.stderr)

    def test_a_command_is_wanted(self):
        done = subprocess.run([PROGRAM, "record"], stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)


class ByCall(Recording):
    """import plimsoll_record; plimsoll_record.start()"""

    def command(self, options, script, arguments):
        return [sys.executable, script] + arguments

    def call(self, script, **more):
        return self.run_script(script, PYTHONPATH=FAKE + os.pathsep + RECORDER, **more)

    def test_a_call_before_or_after_the_import_of_torch_records(self):
        begin = "import plimsoll_record as r\nr.start(out=%r, entries=5)\n"
        for number, script in enumerate((begin + OOM, "import torch\n" + begin + OOM,
                                         FINE + begin + OOM)):
            out = "out%d" % number
            got = self.call(script % self.path(out), out=out)
            self.assertEqual(got.status, 1)
            self.assertEqual(got.files(), ["rank0-oom.json", "rank0-oom.pickle"], got.err)
            self.assertEqual(got.record("rank0-oom.json")["history"]["max_entries"], 5)

    def test_a_dump_can_be_called_for(self):
        got = self.call("import plimsoll_record as r\nprint(r.dump())\nr.start(%r)\nr.start()\n"
                        "%sprint(r.dump('after-load'))\n" % (self.path("out"), FINE))
        self.assertEqual(got.out, "False\nTrue\n")
        self.assertEqual(got.files(), ["rank0-after-load.json", "rank0-after-load.pickle"])
        self.assertIn("recording was begun already", got.err)

    def driver_after(self, before, out):
        got = self.call("%simport plimsoll_record as r\nr.start(out=%r)\n%sr.dump('here')\n"
                        % (before, self.path(out), FINE), out=out)
        self.assertEqual(got.files(), ["rank0-here.json", "rank0-here.pickle"], got.err)
        return got.record("rank0-here.json")["versions"]["cuda_driver"]

    def test_the_driver_tells_its_version(self):
        self.assertEqual(self.driver_after(DRIVER % 0, "out"), 13000)

    def test_a_driver_that_does_not_tell_its_version_is_no_error(self):
        for number, before in enumerate((DRIVER % 999, "import ctypes\nctypes.CDLL = None\n",
                                         "import sys\nsys.modules['ctypes'] = None\n")):
            self.assertIsNone(self.driver_after(before, "out%d" % number))


if __name__ == "__main__":
    unittest.main()
