# SPDX-License-Identifier: MIT
"""What runs inside a forecast's script, from outside: scripts run under it, with a stand-in for
PyTorch. What needs tensors is in forecast_with_torch.py.

usage: test_forecast.py
"""
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake_gpu", "site-packages")  # a package, not the user's
FORECAST = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python", "forecast")

LOOP = ("import torch\na = torch.optim.SGD()\n"
        "for i in range(9):\n    torch.use(100 + i); torch.free(100); a.step()\nprint('after')\n")


class Forecasting(unittest.TestCase):
    def setUp(self):
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="plimsoll-test-"))
        self.addCleanup(shutil.rmtree, self.place, True)
        self.out = self.path("out")
        os.mkdir(self.path("work"))

    def path(self, *names):
        return os.path.join(self.place, *names)

    def write(self, name, text):
        path = self.path("work", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def read(self, name):
        with open(self.path("work", name)) as file:
            return file.read()

    def environment(self, settings, more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(
            ("PLIMSOLL", "FAKE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "WANDB", "TMPDIR"))}
        os.makedirs(self.out, exist_ok=True)
        with open(self.path("settings.json"), "w") as file:
            json.dump(settings, file)
        kept.update({"PYTHONPATH": os.pathsep.join((FORECAST, FAKE)),
                     "PYTHONDONTWRITEBYTECODE": "1",
                     "PLIMSOLL_FORECAST": self.path("settings.json")})
        kept.update(more)
        return {k: v for k, v in kept.items() if v is not None}

    def run_script(self, script, steps=3, harmless="overlay", stop=True, **more):
        self.write("train.py", script)
        settings = {"steps": steps, "out": self.out, "harmless": harmless, "stop": stop}
        return self.run_command([sys.executable, "train.py"], settings, more)

    def run_command(self, command, settings, more):
        return subprocess.run(command, env=self.environment(settings, more),
                              cwd=self.path("work"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60)

    def answers(self):
        return sorted(name for name in os.listdir(self.out) if name.endswith(".json"))

    def answer(self, rank=0):
        with open(os.path.join(self.out, "rank%d.json" % rank)) as file:
            return json.load(file)

    def snapshot(self, rank=0):
        with open(os.path.join(self.out, "rank%d.pickle" % rank), "rb") as file:
            return pickle.load(file)

    def good(self, script, **more):
        got = self.run_script(script, **more)
        self.assertEqual(got.returncode, 0, got.stderr)
        return got


class Steps(Forecasting):
    def test_peaks_are_since_the_step_before_and_the_script_ends_after_the_steps(self):
        got = self.good(LOOP)
        self.assertEqual(got.stdout, "")
        answer = self.answer()
        self.assertEqual([(s["step"], s["allocated_bytes"], s["reserved_bytes"])
                          for s in answer["steps"]], [(1, 100, 100), (2, 101, 101), (3, 103, 103)])
        self.assertEqual(answer["ended"], "steps")
        self.assertEqual(answer["peak"], {"allocated_bytes": 103, "reserved_bytes": 103})
        self.assertEqual((answer["torch"], answer["cuda"], answer["device"], answer["rank"],
                          answer["ranks"]), ("2.11.0+cu130", "13.0", "Fake", 0, 1))
        self.assertEqual(self.snapshot()["history"], "python")

    def test_a_step_knows_nothing_of_the_peak_before_it(self):
        self.good("import torch\na = torch.optim.SGD()\ntorch.use(900); torch.free(900)\na.step()\n"
                  "torch.use(50); a.step()\n", steps=2)
        self.assertEqual([s["allocated_bytes"] for s in self.answer()["steps"]], [900, 50])
        self.assertEqual(self.answer()["end"]["held_allocated_bytes"], 50)

    def test_a_script_may_run_to_its_end(self):
        self.assertEqual(self.good(LOOP, stop=False).stdout, "after\n")
        self.assertEqual(len(self.answer()["steps"]), 9)
        self.assertEqual(self.answer()["ended"], "script")

    def test_a_short_script_ends_by_itself(self):
        got = self.good(LOOP, steps=20)
        self.assertEqual(got.stdout, "after\n")
        self.assertEqual((self.answer()["ended"], len(self.answer()["steps"])), ("script", 9))

    def test_a_script_without_steps_leaves_its_peak(self):
        self.good("import torch\ntorch.use(70); torch.free(30)\n")
        self.assertEqual(self.answer()["steps"], [])
        self.assertEqual(self.answer()["peak"]["allocated_bytes"], 70)

    def test_each_optimizer_makes_its_steps(self):
        self.good("import torch\na, b = torch.optim.SGD(), torch.optim.SGD()\n"
                  "for i in range(9):\n    torch.use(10); a.step(); torch.use(5); b.step()\n")
        self.assertEqual([s["allocated_bytes"] for s in self.answer()["steps"]],
                         [10, 15, 25, 30, 40, 45])

    def test_an_optimizer_that_lags_does_not_run_for_ever(self):
        self.good("import torch\na, b = torch.optim.SGD(), torch.optim.SGD()\nb.step()\n"
                  "for i in range(99):\n    a.step()\nraise ValueError\n", steps=2)
        self.assertEqual(len(self.answer()["steps"]), 33)  # 16 calls for each step, and b's

    def test_no_destructor_and_no_exit_handler_runs_after_the_steps(self):
        got = self.good("import atexit\natexit.register(print, 'saved')\n" + LOOP)
        self.assertEqual(got.stdout, "")

    def test_a_reset_by_the_script_hides_no_peak_and_shows_what_it_would(self):
        got = self.good(
            "import torch\na = torch.optim.SGD()\ntorch.use(500); torch.free(400)\n"
            "torch.cuda.reset_peak_memory_stats()\ntorch.use(20)\n"
            "print(torch.cuda.max_memory_allocated())\na.step()\n"
            "print(torch.cuda.max_memory_allocated())\ntorch.use(1); torch.free(1); a.step()\n"
            "print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())\n")
        self.assertEqual(got.stdout, "120\n120\n121 500\n")
        self.assertEqual([s["allocated_bytes"] for s in self.answer()["steps"]], [500, 121])


class Ends(Forecasting):
    def test_no_memory_is_an_answer_with_its_line_and_moment(self):
        got = self.good("import torch\ntorch.use(400)\ntry:\n    torch.use(700)\nfinally:\n"
                        "    torch.free(400)\n")
        self.assertNotIn("Traceback", got.stderr)
        answer = self.answer()
        self.assertEqual((answer["ended"], answer["line"]), ("out_of_memory", "train.py:4"))
        self.assertIn("700 bytes", answer["error"])
        self.assertEqual(self.snapshot()["segments"][0]["total_size"], 400)

    def test_no_memory_that_the_script_survives_is_forgotten(self):
        self.good("import torch\ntry:\n    torch.use(2000)\n"
                  "except RuntimeError:\n    pass\n" + LOOP)
        self.assertEqual(self.answer()["ended"], "steps")

    def test_no_memory_after_which_the_script_gives_up_is_an_answer(self):
        got = self.run_script("import sys, torch\ntry:\n    torch.use(2000)\n"
                              "except RuntimeError:\n    sys.exit('too large')\n")
        self.assertEqual(got.returncode, 1)
        self.assertEqual((self.answer()["ended"], self.answer()["line"]),
                         ("out_of_memory", "train.py:3"))

    def test_an_error_is_the_scripts_own(self):
        got = self.run_script("import torch\ntorch.use(1)\nraise ValueError('odd')\n")
        self.assertEqual(got.returncode, 1)
        self.assertTrue(got.stderr.endswith("ValueError: odd\n"))
        answer = self.answer()
        self.assertEqual((answer["ended"], answer["error"], answer["line"]),
                         ("error", "ValueError: odd", "train.py:3"))

    def test_a_process_that_does_not_use_cuda_leaves_nothing(self):
        self.good("import torch\nprint(5)\n")
        self.assertEqual(self.answers(), [])


class StartUp(Forecasting):
    def test_another_sitecustomize_still_runs(self):
        self.write("site/sitecustomize.py", "print('theirs')\n")
        paths = os.pathsep.join((FORECAST, self.path("work", "site"), FAKE))
        self.assertEqual(self.good(LOOP, PYTHONPATH=paths).stdout, "theirs\n")
        self.assertEqual(self.answer()["ended"], "steps")
        self.write("site/sitecustomize.py", "raise ValueError('broken')\n")
        self.assertIn("another sitecustomize failed: ValueError: broken",
                      self.good("pass\n", PYTHONPATH=paths).stderr)

    def test_our_files_hide_no_module_of_the_same_name(self):
        self.write("site/values.py", "whose = 'theirs'\n")
        got = self.good("import sys, values\nprint(values.whose)\ntry:\n    import peaks\n"
                        "except ImportError:\n    print('none')\n",
                        PYTHONPATH=os.pathsep.join((FORECAST, self.path("work", "site"), FAKE)))
        self.assertEqual(got.stdout, "theirs\nnone\n")

    def test_looking_for_torch_is_not_importing_it(self):
        self.good("import importlib.util\nassert importlib.util.find_spec('torch')\n" + LOOP)
        self.assertEqual(self.answer()["ended"], "steps")

    def test_without_settings_nothing_of_ours_begins(self):
        got = self.run_script("import sys\nprint('plimsoll_forecast' in sys.modules)\n",
                              PLIMSOLL_FORECAST=None)
        self.assertEqual(got.stdout, "False\n")

    def test_settings_that_cannot_be_read_are_said(self):
        for settings in ({}, {"steps": 0, "out": "x", "harmless": "overlay"},
                         {"steps": 1, "out": "x", "harmless": "maybe"}):
            got = self.run_command([sys.executable, "-c", "print(1)"], settings, {})
            self.assertEqual((got.returncode, got.stdout), (3, ""))
            self.assertEqual(got.stderr.count("\n"), 1)


class Processes(Forecasting):
    def test_ranks_are_told_by_the_environment(self):
        """The other ranks have answered already, so this one does not wait."""
        os.mkdir(self.out)
        for rank in (0, 1):
            with open(os.path.join(self.out, "rank%d.json" % rank), "w"):
                pass
        self.good(LOOP, RANK="2", WORLD_SIZE="3")
        self.assertEqual((self.answer(2)["rank"], self.answer(2)["ranks"]), (2, 3))

    def test_a_launcher_without_a_rank_leaves_the_answer_to_its_child(self):
        """As accelerate starts one process: the child has no RANK, and the launcher no GPU."""
        self.write("child.py", LOOP)
        self.good("import subprocess, sys, torch\n"
                  "sys.exit(subprocess.call([sys.executable, 'child.py']))\n")
        self.assertEqual(len(self.answer()["steps"]), 3)

    def test_workers_that_use_the_gpu_record_nothing(self):
        script = ("import torch, multiprocessing as m\n"
                  "def work():\n    torch.use(900)\n"
                  "if __name__ == '__main__':\n"
                  "    p = m.get_context('spawn').Process(target=work); p.start(); p.join()\n"
                  "    assert p.exitcode == 0\n"
                  "    torch.use(7)\n")
        self.good(script)
        self.assertEqual(self.answer()["peak"]["allocated_bytes"], 7)

    def test_a_compile_worker_records_nothing(self):
        self.good("import subprocess, sys, torch\nsubprocess.check_call([sys.executable, '-c',"
                  " 'import torch; torch.use(900)', 'torch._inductor.compile_worker'])\n"
                  "torch.use(7)\n")
        self.assertEqual(self.answer()["peak"]["allocated_bytes"], 7)

    def test_spawned_ranks_are_told_by_their_group(self):
        """torch.multiprocessing.spawn: the rank is an argument, and no variable tells."""
        script = ("import os, torch, multiprocessing as m\n"
                  "def work(rank):\n    os.environ['FAKE_GROUP'] = '%d/2' % rank\n"
                  "    a = torch.optim.SGD()\n    torch.use(10 + rank)\n"
                  "    for i in range(5): a.step()\n    raise ValueError\n"
                  "if __name__ == '__main__':\n    c = m.get_context('spawn')\n"
                  "    ps = [c.Process(target=work, args=(r,)) for r in (0, 1)]\n"
                  "    [p.start() for p in ps]; [p.join() for p in ps]\n"
                  "    print([p.exitcode for p in ps])\n")
        self.assertEqual(self.good(script).stdout, "[0, 0]\n")
        self.assertEqual([self.answer(r)["peak"]["allocated_bytes"] for r in (0, 1)], [10, 11])

    def test_a_forked_child_keeps_out(self):
        self.good("import os, torch\ntorch.use(5)\npid = os.fork()\nif pid == 0:\n"
                  "    torch.optim.SGD().step(); raise SystemExit(0)\nos.waitpid(pid, 0)\n")
        self.assertEqual((self.answer()["ended"], self.answer()["steps"]), ("script", []))

    def test_a_second_script_of_the_command_does_not_train(self):
        self.write("first.py", LOOP)
        self.write("second.py", LOOP.replace("9", "10**9"))
        got = self.good("import subprocess, sys\nfor name in ('first.py', 'second.py'):\n"
                        "    print(subprocess.call([sys.executable, name]))\n")
        self.assertEqual(got.stdout, "0\n0\n")
        self.assertIn("another process answers for this rank", got.stderr)


class Evaluations(Forecasting):
    MODEL = ("import torch\nmodel = torch.nn.Module(torch.nn.Module())\na = torch.optim.SGD()\n"
             "def step(n):\n    torch.use(n); torch.free(n); a.step()\n"
             "def evaluate(n):\n    model.eval(); torch.use(n); torch.free(n); model.train()\n")

    def evaluations(self):
        return [(e["step"], e["allocated_bytes"]) for e in self.answer()["evaluation"]]

    def test_an_evaluation_between_steps_has_its_own_peak_and_is_in_the_steps(self):
        self.good(self.MODEL + "step(10); evaluate(90); step(20)\n", steps=5)
        self.assertEqual(self.evaluations(), [(1, 90)])
        self.assertEqual([s["allocated_bytes"] for s in self.answer()["steps"]], [10, 90])

    def test_an_evaluation_at_the_end_ends_with_the_script(self):
        self.good(self.MODEL + "step(10); model.eval(); torch.use(50)\n", steps=5)
        self.assertEqual(self.evaluations(), [(1, 50)])

    def test_a_teacher_that_stays_in_eval_mode_is_none(self):
        self.good(self.MODEL + "torch.nn.Module().eval(); step(10); step(20)\n", steps=5)
        self.assertEqual(self.evaluations(), [])

    def test_a_switch_back_and_forth_is_none(self):
        self.good(self.MODEL + "torch.use(9); model.eval(); model.train(); step(10)\n", steps=5)
        self.assertEqual(self.evaluations(), [])

    def test_the_loader_ends_early_so_that_the_evaluation_comes(self):
        got = self.good(self.MODEL + (
            "train = torch.utils.data.DataLoader([1] * 99)\n"
            "test = torch.utils.data.DataLoader([5, 6])\n"
            "for epoch in range(2):\n    for n in train: step(n)\n"
            "    for n in test: evaluate(n * 10)\n    print('epoch')\n"))
        self.assertEqual(got.stdout, "epoch\n")
        self.assertEqual(len(self.answer()["steps"]), 3)
        self.assertEqual(self.evaluations(), [(3, 50), (3, 60)])
        self.assertEqual((self.answer()["ended"], self.answer()["peak"]["allocated_bytes"]),
                         ("steps", 60))

    def test_a_loader_that_is_drawn_by_hand_ends_the_forecast(self):
        got = self.good(self.MODEL + "it = iter(torch.utils.data.DataLoader([1] * 99))\n"
                        "while True: step(next(it))\n")
        self.assertNotIn("Traceback", got.stderr)
        self.assertEqual((self.answer()["ended"], len(self.answer()["steps"])), ("steps", 3))

    def test_batches_drawn_ahead_are_trained_on_and_not_counted(self):
        self.good(self.MODEL + "it = iter(torch.utils.data.DataLoader([1] * 99))\n"
                               "ahead = next(it)\n"
                  "for n in it:\n    step(ahead); ahead = n\nstep(ahead); evaluate(40)\n")
        self.assertEqual(len(self.answer()["steps"]), 3)
        self.assertEqual(self.evaluations(), [(3, 40)])

    def test_training_that_goes_on_is_ended(self):
        got = self.good(self.MODEL + "it = iter(torch.utils.data.DataLoader([1] * 3))\n"
                        "for n in it: step(n)\nfor i in range(99): step(1)\nprint('no')\n")
        self.assertEqual(got.stdout, "")


class Ranges(Forecasting):
    def test_skipped_updates_of_fp16_are_a_range(self):
        self.good("import torch\na, s = torch.optim.SGD(), torch.GradScaler()\n"
                  "torch.use(10)\ns.step(a)\ntorch.use(30); s.step(a)\n", steps=2)
        self.assertEqual(self.answer()["ranges"], [{
            "what": "fp16: first updates skipped", "low_allocated_bytes": 10,
            "low_reserved_bytes": 10, "high_allocated_bytes": 40, "high_reserved_bytes": 40}])

    def test_without_a_scaler_there_is_none(self):
        self.good(LOOP)
        self.assertEqual(self.answer()["ranges"], [])


class Refusals(Forecasting):
    def refused(self, script, text, **more):
        got = self.run_script(script, **more)
        self.assertEqual((got.returncode, got.stdout), (2, ""), got.stderr)
        self.assertEqual(got.stderr.count("\n"), 1)
        self.assertIn(text, got.stderr)

    def test_a_pytorch_for_the_cpu_is_refused(self):
        self.refused(LOOP, "wanted a PyTorch built for CUDA, found 2.11.0+cpu (CPU only)",
                     FAKE_VERSION="2.11.0+cpu", FAKE_CUDA="none")

    def test_a_pytorch_just_too_old_is_refused_and_the_oldest_is_not(self):
        self.refused(LOOP, "wanted PyTorch 2.4 or newer, found 2.3.1", FAKE_VERSION="2.3.1")
        self.good(LOOP, FAKE_VERSION="2.4.0")

    def test_an_allocator_that_records_nothing_is_refused(self):
        self.refused(LOOP, "wanted PyTorch's native allocator, found cudaMallocAsync",
                     FAKE_BACKEND="cudaMallocAsync")

    def test_a_lost_library_is_said(self):
        self.refused(LOOP, "dropped LD_PRELOAD", FAKE_PHANTOM="no")

    def test_other_platforms_are_refused(self):
        for system, machine in (("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "aarch64")):
            self.write("site/platform.py", "system = lambda: %r\nmachine = lambda: %r\n"
                       % (system, machine))
            self.refused("print(1)\n", "found %s on %s" % (system, machine),
                         PYTHONPATH=os.pathsep.join((FORECAST, self.path("work", "site"))))

    def test_a_library_with_kernels_of_its_own_is_refused_when_it_is_used(self):
        self.write("site-packages/bitsandbytes/__init__.py", "")
        self.write("site-packages/bitsandbytes/nn/__init__.py", "")
        self.write("site-packages/bitsandbytes/nn/modules.py", "class Linear4bit:\n    pass\n")
        self.write("site-packages/flash_attn/__init__.py", "")
        self.write("site-packages/flash_attn/flash_attn_interface.py",
                   "def flash_attn_func(q):\n    return q\n")
        paths = os.pathsep.join((FORECAST, FAKE, self.path("work", "site-packages")))
        begin = ("import torch\ntorch.use(1)\nfrom bitsandbytes.nn.modules import Linear4bit\n"
                 "from flash_attn.flash_attn_interface import flash_attn_func\n")
        self.good(begin, PYTHONPATH=paths)
        shutil.rmtree(self.out)
        self.refused(begin + "Linear4bit()\n", "train.py:5: bitsandbytes.Linear4bit has kernels",
                     PYTHONPATH=paths)
        self.assertEqual((self.answer()["ended"], self.answer()["line"]),
                         ("refused", "train.py:5"))
        shutil.rmtree(self.out)
        self.refused(begin + "flash_attn_func(1)\n", "flash_attn.flash_attn_func has kernels",
                     PYTHONPATH=paths)


class Unknown(Forecasting):
    """Numbers that only a run knows."""

    BEGIN = ("from plimsoll_forecast import unknown\n"
             "x = unknown.number(0.5)\nn = unknown.number(3)\n")

    def warned(self, script):
        got = self.good(self.BEGIN + script + "\nlines = [w['line'] for w in unknown.warnings]\n"
                        "print('|'.join(lines))\n")
        return got.stdout.splitlines()

    def test_printing_and_computing_are_no_decisions(self):
        self.assertEqual(self.warned(
            "print(x, f'{x:.2f}', x * 2 + 1, round(x, 1), n // 2, -n, 2 ** n, [n][0])"),
            ["0.5 0.50 2.0 0.5 1 -3 8 3", ""])

    def test_a_decision_is_told_once_with_its_line(self):
        self.assertEqual(self.warned("for i in range(3):\n    if x < 1: pass\nif n * 2 == 6: pass\n"
                                     "while not n: pass"),
                         ["train.py:5|train.py:6|train.py:7"])

    def test_what_is_computed_of_it_is_unknown_too(self):
        self.assertEqual(self.warned("best = min(1.0, (x / 4 + 1) * 2 - n)"), ["train.py:4"])

    def test_an_assertion_holds(self):
        self.assertEqual(self.warned("assert x > 1"), ["train.py:4"])

    def test_elsewhere_it_is_a_plain_number(self):
        self.assertEqual(self.warned("import json, math, pickle\nprint(json.dumps([x, n]), "
                                     "math.isfinite(x), type(pickle.loads(pickle.dumps(x))))"),
                         ["[0.5, 3] True <class 'float'>", ""])

    def test_a_line_within_a_package_is_told_as_the_users_call(self):
        self.write("site-packages/lib.py", "def decide(x):\n    return 1 if x > 2 else 0\n")
        script = self.BEGIN + "import lib\nlib.decide(x)\nprint(unknown.warnings[0]['line'])\n"
        got = self.good(script, PYTHONPATH=os.pathsep.join(
            (FORECAST, FAKE, self.path("work", "site-packages"))))
        self.assertEqual(got.stdout, "train.py:5\n")


class Harmless(Forecasting):
    """With hooks: old files stay as they are, and the script sees what it wrote."""

    def setUp(self):
        super().setUp()
        self.write("best.pt", "old")
        self.write("log.txt", "line\n")
        self.write("old.txt", "o")
        self.write("kept/k.txt", "k")
        self.write("saved/1.pt", "1")
        self.before = self.tree()

    def tree(self):
        found = {}
        for folder, _, names in os.walk(self.path("work")):
            for name in names:
                if name != "train.py":
                    with open(os.path.join(folder, name), "rb") as file:
                        found[os.path.join(folder, name)] = file.read()
            found[folder] = None
        return found

    def harmless(self, script, skipped=None):
        got = self.good("import glob, json, os, pathlib, shutil, tempfile\n" + script +
                        "\nimport plimsoll_forecast.writes as w\nprint(json.dumps(w.skipped))\n",
                        harmless="hooks")
        self.assertEqual(self.tree(), self.before)
        if skipped is not None:
            self.assertEqual(json.loads(got.stdout), skipped)

    def test_a_file_opened_for_writing_leaves_the_old_one_whole(self):
        self.harmless("with open('best.pt', 'wb') as f: f.write(b'new')\n"
                      "assert open('best.pt', 'rb').read() == b'new'", ["best.pt"])

    def test_appending_begins_with_the_old_bytes(self):
        self.harmless("with open('log.txt', 'a') as f: f.write('more\\n')\n"
                      "with open('best.pt', 'r+') as f: f.write('O')\n"
                      "assert open('log.txt').read() == 'line\\nmore\\n'\n"
                      "assert open('best.pt').read() == 'Old'", ["log.txt", "best.pt"])

    def test_new_folders_and_files_are_seen(self):
        self.harmless("os.makedirs('a/b'); p = pathlib.Path('a/b/x.json'); p.write_text('{}')\n"
                      "assert json.loads(p.read_text()) == {} and p.exists() and os.path.isdir('a')\n"
                      "assert os.listdir('a') == ['b'] and glob.glob('a/*/*') == ['a/b/x.json']\n"
                      "assert 'a' in [e.name for e in os.scandir('.')]\n"
                      "assert 'best.pt' in os.listdir('.')\n"
                      "pathlib.Path('touched').touch(); assert os.path.exists('touched')")

    def test_a_removed_file_is_gone_for_the_script_only(self):
        self.harmless("os.remove('old.txt')\nassert not os.path.exists('old.txt')\n"
                      "assert 'old.txt' not in os.listdir('.')\n"
                      "try:\n    open('old.txt')\n    raise SystemExit('read')\n"
                      "except FileNotFoundError:\n    pass\n"
                      "open('old.txt', 'w').write('again')\n"
                      "assert open('old.txt').read() == 'again'",
                      ["removed old.txt", "old.txt"])

    def test_moves_leave_both_places_as_they_were(self):
        self.harmless("open('new.tmp', 'w').write('new'); os.replace('new.tmp', 'best.pt')\n"
                      "assert open('best.pt').read() == 'new' and not os.path.exists('new.tmp')\n"
                      "os.rename('kept', 'moved'); assert open('moved/k.txt').read() == 'k'\n"
                      "open('moved/k.txt', 'w').write('x'); assert not os.path.exists('kept/k.txt')\n"
                      "shutil.copy('log.txt', 'c.txt'); shutil.move('c.txt', 'saved/c.txt')\n"
                      "assert os.path.exists('saved/c.txt')")

    def test_what_is_shown_at_another_place_is_changed_only_there(self):
        self.harmless("os.rename('log.txt', 'log.1')\n"
                      "with open('log.1', 'a') as f: f.write('more\\n')\n"
                      "assert open('log.1').read() == 'line\\nmore\\n'\n"
                      "os.rename('best.pt', 'b.pt'); os.truncate('b.pt', 1); os.chmod('b.pt', 0o600)\n"
                      "assert open('b.pt').read() == 'o'\n"
                      "os.symlink('old.txt', 'link')\n"
                      "with open('link', 'r+') as f: f.write('n')\n"
                      "assert open('link').read() == 'n'")

    def test_a_link_to_a_folder_leads_to_the_private_copy(self):
        self.harmless("os.symlink('saved', 'latest')\n"
                      "open('latest/2.pt', 'w').write('2'); open('latest/1.pt', 'w').write('new')\n"
                      "for at in 'latest', 'saved':\n"
                      "    assert open(at + '/2.pt').read() == '2'\n"
                      "    assert open(at + '/1.pt').read() == 'new'\n"
                      "    assert sorted(os.listdir(at)) == ['1.pt', '2.pt']\n"
                      "os.remove('latest/1.pt'); assert not os.path.exists('saved/1.pt')")

    def test_a_hard_link_counts_from_the_current_folder(self):
        self.harmless("os.link('log.txt', 'saved/hard')\n"
                      "assert open('saved/hard').read() == 'line\\n'")

    def test_a_removed_folder_can_be_made_anew(self):
        self.harmless("shutil.rmtree('saved'); assert not os.path.exists('saved/1.pt')\n"
                      "os.mkdir('saved'); assert os.listdir('saved') == []\n"
                      "open('saved/2.pt', 'w').close(); assert os.listdir('saved') == ['2.pt']",
                      ["removed saved", "saved/2.pt"])

    def test_errors_are_those_of_the_file_system(self):
        self.harmless("def fails(kind, f, *a):\n    try:\n        f(*a)\n    except kind:\n"
                      "        return\n    raise SystemExit(f)\n"
                      "fails(FileNotFoundError, open, 'none/x', 'w')\n"
                      "fails(FileNotFoundError, open, 'none', 'r+')\n"
                      "fails(FileExistsError, open, 'log.txt', 'x')\n"
                      "fails(IsADirectoryError, open, 'saved', 'w')\n"
                      "fails(FileExistsError, os.mkdir, 'saved')\n"
                      "fails(OSError, os.rmdir, 'saved')\n"
                      "fails(FileNotFoundError, os.remove, 'none')\n"
                      "fails(FileNotFoundError, shutil.rmtree, 'none')\n"
                      "fails(FileNotFoundError, os.rename, 'none', 'x')", [])

    def test_low_level_writes_are_kept_too(self):
        self.harmless("fd = os.open('raw', os.O_CREAT | os.O_WRONLY); os.write(fd, b'1')\n"
                      "os.close(fd); assert open('raw').read() == '1'\n"
                      "fd = os.open('best.pt', os.O_WRONLY | os.O_TRUNC); os.close(fd)\n"
                      "assert os.stat('best.pt').st_size == 0\nos.chmod('log.txt', 0)\n"
                      "os.symlink('log.txt', 'link'); assert open('link').read() == 'line\\n'")

    def test_temporary_files_and_devices_are_left_alone(self):
        self.harmless("with tempfile.TemporaryDirectory() as d: open(d + '/t', 'w').write('t')\n"
                      "with tempfile.NamedTemporaryFile('w') as f: f.write('x')\n"
                      "open('/dev/null', 'w').write('x')", [])

    def test_a_child_sees_what_its_parent_wrote(self):
        self.harmless("import subprocess, sys\nopen('best.pt', 'w').write('new')\n"
                      "os.remove('old.txt')\nout = subprocess.check_output([sys.executable, '-c', "
                      "'import os; print(open(\"best.pt\").read(), os.path.exists(\"old.txt\"))'])\n"
                      "assert out == b'new False\\n', out")

    def test_a_data_base_is_copied_first(self):
        self.harmless("import sqlite3\n"
                      "c = sqlite3.connect('log.db'); c.execute('create table t (x)')\n"
                      "c.commit(); c.close(); assert os.path.exists('log.db')", ["log.db"])

    def test_over_an_overlay_files_are_written_as_they_are(self):
        self.good("open('new', 'w').write('x')\n")
        self.assertEqual(self.read("new"), "x")


class Trackers(Forecasting):
    def packages(self, **files):
        for name, text in files.items():
            self.write("site-packages/" + name.replace("__", "/") + ".py", text)
        return os.pathsep.join((FORECAST, FAKE, self.path("work", "site-packages")))

    def test_the_environment_switches_trackers_off(self):
        got = self.good("import os\nprint(os.environ['WANDB_MODE'], os.environ['COMET_MODE'])\n",
                        WANDB_MODE="online")
        self.assertEqual(got.stdout, "disabled disabled\n")

    def test_a_run_that_a_script_opens_online_is_switched_off(self):
        paths = self.packages(wandb="def init(project=None, mode=None):\n"
                                    "    print(project, mode)\n",
                              comet_ml="class Experiment:\n    def __init__(self):\n"
                              "        raise SystemExit('sent')\n",
                              mlflow="def set_tracking_uri(uri):\n    raise SystemExit('sent')\n")
        got = self.good("import wandb, comet_ml, mlflow\nwandb.init(project='p', mode='online')\n"
                        "with comet_ml.Experiment() as e: e.log_metric('x', 1)\n"
                        "mlflow.set_tracking_uri('http://host')\n", PYTHONPATH=paths)
        self.assertEqual(got.stdout, "p disabled\n")

    def test_uploads_are_left_out_and_listed(self):
        self.write("site-packages/huggingface_hub/__init__.py", "")
        paths = self.packages(huggingface_hub__hf_api=(
            "class HfApi:\n    def upload_folder(self, repo_id):\n"
            "        raise SystemExit('sent')\n"
            "api = HfApi()\nupload_folder = api.upload_folder\n"))
        got = self.good("import torch\ntorch.use(1)\n"
                        "from huggingface_hub.hf_api import HfApi, upload_folder\n"
                        "HfApi().upload_folder(repo_id='me/x')\nupload_folder(repo_id='me/y')\n",
                        PYTHONPATH=paths)
        self.assertEqual(got.returncode, 0)
        self.assertEqual(self.answer()["skipped_writes"], ["huggingface_hub.upload_folder(me/x)",
                                                           "huggingface_hub.upload_folder(me/y)"])


if __name__ == "__main__":
    unittest.main()
