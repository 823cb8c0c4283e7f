# SPDX-License-Identifier: MIT
"""A forecast's files with a real PyTorch and the library that stands in for the GPU: what small
tensors hold, what shapes depend on, what first values are, and the measured rows.

usage: forecast_with_torch.py LIBRARY [--rows FOLDER] [--save TABLE.json] [unittest's words]

LIBRARY   the stand-in, libplimsoll_phantom.so
--rows    the folder with the scripts and their measured peaks (NAME.py, NAME.json); the scripts of
          transformers run when that is there
--save    writes the rows' errors, by version of PyTorch

The Python that runs this file must have PyTorch for CUDA; no GPU is needed. The nightly runs it once
for each version of PyTorch.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FORECAST = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python", "forecast")
DEVICE = {"name": "NVIDIA H200", "memory_bytes": 150109880320, "context_bytes": 0,
          "multiprocessors": 132, "capability": 90, "threads_per_multiprocessor": 2048,
          "blocks_per_multiprocessor": 32, "shared_bytes_per_multiprocessor": 233472,
          "shared_bytes_per_block_optin": 232448, "registers_per_multiprocessor": 65536,
          "l2_bytes": 62914560, "clock_khz": 1980000, "memory_clock_khz": 3201000,
          "bus_bits": 6144, "devices": 1, "driver": 13000}

# name, arguments, steps, does it need transformers?
ROWS = (("own_gpt", "own_gpt.py", [], 4, False),
        ("own_gpt_plain_fp16", "own_gpt.py", ["--plain", "--batch", "4", "--dtype", "float16",
                                              "--accumulate", "2", "--dropout", "0.1"], 4, False),
        ("lstm_lm", "lstm_lm.py", [], 5, False),
        ("hf_bert_mlm", "hf_bert_mlm.py", [], 6, True),
        ("hf_llama_checkpointed", "hf_llama_checkpointed.py", [], 4, True),
        ("hf_trainer_gpt2", "hf_trainer_gpt2.py", [], 6, True))
EXACT = "2.11"  # the version that the rows were measured with

# first five and last three of each draw below
CARD_DREW = [
    [0.127207949757576, 0.8167362809181213, 0.5439992547035217, 0.6600790619850159,
    0.2720557153224945, 0.973670244216919, 0.3903345465660095],
    [0.6208323240280151, 0.027627848088741302, 0.32553836703300476, 0.11143427342176437,
    0.6811622977256775, 0.27738022804260254, 0.6693881154060364, 0.7273111343383789],
    [0.2491455078125, 0.171875, 0.447021484375, 0.368896484375, 0.58642578125, 0.276611328125,
    0.10601806640625, 0.58154296875],
    [5767, 38296, 19714, 5266, 10761, 23780, 14353, 19387],
    [180, 105, 489, 408, 349, 176, 475, 452],
    [54720107, 82858053, 166037638, 39313696, 164553098, 159955815, 45629863, 107392932],
    [21069402, 132864308, 25573160, 65666334, 85205307, 252297531, 128660224, 151766398],
    [75, 53, 29, 14, 21, 66, 46, 52],
    [15, 67, 25, 33, 60, 36, 20, 4],
    [1.0080726146697998, -1.4542542695999146, -1.3432449102401733, -0.25433868169784546,
    0.28851407766342163, -1.7013659477233887, -1.1396687030792236, 3.696636199951172],
    [-2.484375, -0.41015625, 0.486328125, -1.140625, -0.40625, 0.029541015625, 0.7109375,
    -1.796875],
    [0.829563319683075, 2.9420013427734375, 0.6019361615180969, 1.2759473323822021,
    2.187234878540039, 0.8022956848144531, 0.6108741760253906, 2.121076822280884],
    [-0.028865456581115723, 0.5018590688705444, 1.2275848388671875, 1.3200724124908447,
    1.3923850059509277, 1.3136374950408936, 0.904937744140625, 1.669971227645874],
    [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0],
    [0.4792161285877228, 0.05541253834962845, 0.3609063923358917, 0.7240301370620728,
    0.8575098514556885, 0.1845536082983017, 0.3273357152938843, 0.6289558410644531],
    [-0.8315619826316833, 0.43159183859825134, -0.23999963700771332, 0.8237238526344299,
    -2.2939789295196533, -0.3194916248321533, -1.1669788360595703, 0.29684603214263916],
    [5.0, 8.0, 0.0, 9.0, 2.0, 3.0, 4.0, 7.0],
    [0.7659821510314941, 0.3874756097793579, 0.7304975986480713, 0.1861107051372528,
    0.9196091294288635, 0.9843763113021851, 0.408820778131485, 0.9207318425178528],
    [3, 1, 7, 0, 0, 3, 6, 6],
    [0.8785915970802307, 0.44873249530792236, 0.8511554002761841],
    2369,
    [0.4624786078929901, 0.11796148121356964, 0.895861804485321]]

options = {}


class WithTorch(unittest.TestCase):
    def setUp(self):
        self.place = os.path.realpath(tempfile.mkdtemp(prefix="plimsoll-test-"))
        self.addCleanup(shutil.rmtree, self.place, True)
        self.out = os.path.join(self.place, "out")
        os.mkdir(self.out)
        os.mkdir(os.path.join(self.place, "lib"))
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            os.symlink(options["library"], os.path.join(self.place, "lib", name))

    def environment(self, steps, harmless, stop, devices):
        with open(os.path.join(self.place, "device"), "w") as file:
            file.writelines("%s %s\n" % one for one in dict(DEVICE, devices=devices).items())
        with open(os.path.join(self.place, "settings.json"), "w") as file:
            json.dump({"steps": steps, "out": self.out, "harmless": harmless, "stop": stop}, file)
        caches = {name: os.path.join(self.place, name.lower()) for name in (
            "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "WORLD_SIZE"))}
        return dict(kept, LD_PRELOAD=options["preload"], PYTHONPATH=FORECAST,
                    LD_LIBRARY_PATH=os.path.join(self.place, "lib"),
                    PLIMSOLL_PHANTOM=os.path.join(self.place, "device"),
                    PLIMSOLL_FORECAST=os.path.join(self.place, "settings.json"), **caches)

    def run_file(self, words, steps=3, harmless="overlay", stop=True, devices=1):
        done = subprocess.run([sys.executable] + words, cwd=self.place, stdout=subprocess.PIPE,
                              env=self.environment(steps, harmless, stop, devices),
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def script(self, text, **more):
        with open(os.path.join(self.place, "train.py"), "w") as file:
            file.write("import torch\nimport torch.nn as nn\n" + text)
        return self.run_file(["train.py"], **more)

    def answer(self, rank=0):
        with open(os.path.join(self.out, "rank%d.json" % rank)) as file:
            return json.load(file)

    def warned(self):
        return [int(one["line"].split(":")[1]) for one in self.answer()["warnings"]]


class Values(WithTorch):
    """Small results hold what the card would hold."""

    def test_integers_and_flags_are_computed(self):
        self.script("x = torch.arange(10).cuda()\nassert x.sum().item() == 45\n"
                    "assert ((x > 3) & (x % 2 == 0)).tolist() == [False] * 4 + [True, False] * 3\n"
                    "y = x.clone(); y += 5; y[2] = -1; assert y.min().item() == -1\n"
                    "assert torch.full((3,), 7, device='cuda').sum().item() == 21\n"
                    "assert bool((torch.ones(4, device='cuda') == 1).all())\n"
                    "assert torch.tensor([1.5], device='cuda').item() == 1.5\n"
                    "assert x.float().mean().item() == 4.5 and int(x.max()) == 9\n"
                    "assert x.view(2, 5).to(torch.bool).all(1).tolist() == [False, True]\n"
                    "assert torch.cat([x, x]).unique().numel() == 10\n"
                    "assert [v.item() for v in torch.max(x.view(2, 5), 1)[1]] == [4, 4]\n")
        self.assertEqual(self.answer()["warnings"], [])

    def test_a_kind_of_tensor_of_the_scripts_own_keeps_its_numbers(self):
        self.script("class Mine(torch.Tensor): pass\nx = torch.arange(4.).as_subclass(Mine)\n"
                    "assert x.sum().item() == 6 and bool((x >= 0).all()) and x.tolist()[3] == 3\n"
                    "torch.zeros(1).cuda()\n")
        self.assertEqual(self.answer()["warnings"], [])

    def test_large_constants_are_known_as_a_whole(self):
        self.script("m = torch.ones(64, 1 << 20, dtype=torch.bool, device='cuda')\n"
                    "assert m.all().item() and m[3:].any().item()\n")
        self.assertEqual(self.answer()["warnings"], [])

    def test_a_value_that_a_kernel_would_write_over_is_unknown(self):
        self.script("x = torch.ones(4, device='cuda')\nw = torch.randn(4, 4, device='cuda')\n"
                    "torch.mv(w, w[0], out=x)\nif x.sum() > 3: pass\n")
        self.assertEqual(self.warned(), [6])

    def test_a_new_tensor_at_the_place_of_a_known_one_is_unknown(self):
        self.script("x = torch.ones(8, device='cuda')\nat = x.data_ptr()\ndel x\n"
                    "w = torch.randn(300, 300, device='cuda')\ny = (w @ w)[0, :8].clone()\n"
                    "if y.sum().item() > 3: pass\n")
        self.assertEqual(self.warned(), [8])

    def test_losses_are_finite_and_decisions_on_them_are_told(self):
        got = self.script("net = nn.Linear(64, 64).cuda()\n"
                          "loss = net(torch.randn(8, 64, device='cuda')).pow(2).mean()\n"
                          "assert not torch.isnan(loss) and torch.isfinite(loss).item()\n"
                          "print(loss.item(), float(loss), f'{loss:.2f}')\n"
                          "if loss.item() < 9: pass\nif loss < 9: pass\n"
                          "if loss.detach().cpu() < 9: pass\n")
        self.assertEqual(self.warned(), [7, 8, 9])
        self.assertEqual(got.stdout.split()[0], "1.0")

    def test_random_results_lie_in_their_bounds_and_leave_the_scripts_generator_alone(self):
        got = self.script(
            "torch.manual_seed(3)\nr = torch.randint(5, 9, (1000,), device='cuda')\n"
            "assert 5 <= min(r.tolist()) and max(r.tolist()) <= 8\n"
            "p = torch.multinomial(torch.ones(4, 50, device='cuda'), 3)\n"
            "assert all(0 <= i < 50 for row in p.tolist() for i in row)\n"
            "w = (torch.randn(4, 90, device='cuda') @ torch.randn(90, 50, device='cuda')).softmax(-1)\n"
            "assert torch.multinomial(w, 1).shape == (4, 1) and torch.multinomial(w, 9, True).shape[1] == 9\n"
            "keep = torch.rand(4000, device='cuda') < 0.25\n"
            "assert 800 < int(keep.sum()) < 1200\nprint(torch.rand(1).item())\n")
        self.assertEqual(got.stdout, self.script("torch.manual_seed(3)\n"
                                                 "print(torch.rand(1).item())\n"
                                                 "torch.zeros(1).cuda()\n").stdout)

    def test_experts_are_chosen_evenly(self):
        self.script("w = torch.randn(512, 64, device='cuda')\n"
                    "chosen = torch.topk((w @ torch.randn(64, 8, device='cuda')).softmax(-1), 2)[1]\n"
                    "for e in range(8):\n    rows, _ = torch.where(chosen == e)\n"
                    "    assert rows.numel() == 128, rows.numel()\n")
        self.assertEqual(self.warned(), [6])

    def test_drawn_words_do_not_end_a_text(self):
        self.script("logits = torch.randn(2, 50000, device='cuda') @ torch.randn(50000, 50000, device='cuda')\n"
                    "for _ in range(3):\n    word = logits.argmax(-1)\n"
                    "    if (word == 2).all(): raise SystemExit('ended')\n")
        self.assertEqual(self.warned(), [6])

    def test_no_infinite_gradient_is_found(self):
        self.script("net = nn.Linear(64, 64).cuda(); opt = torch.optim.SGD(net.parameters(), 0.1)\n"
                    "scaler = torch.amp.GradScaler('cuda')\n"
                    "for i in range(3):\n"
                    "    scaler.scale(net(torch.randn(8, 64, device='cuda')).sum()).backward()\n"
                    "    scaler.step(opt); scaler.update(); assert scaler.get_scale() == 65536\n", steps=9)
        self.assertEqual(len(self.answer()["steps"]), 3)
        self.assertEqual(self.answer()["warnings"], [])
        self.assertEqual(self.answer()["ranges"][0]["what"], "fp16: first updates skipped")

    def test_modes_of_pytorch_go_on_working(self):
        self.script("torch.set_default_device('cuda')\nx = torch.arange(5)\n"
                    "assert x.is_cuda and x.sum().item() == 10\n"
                    "y = torch.func.vmap(lambda a: a * 2)(torch.ones(3, 2))\n"
                    "assert y.shape == (3, 2)\n"
                    "with torch.device('cpu'): assert torch.ones(2).device.type == 'cpu'\n")


class Draws(WithTorch):
    """Small random results are those that an H200 drew (PyTorch 2.11, driver 580), in one run."""

    def test_the_cards_own_numbers_are_drawn_in_their_order(self):
        self.script("torch.manual_seed(1234)\nd = 'cuda'\n"
                    "def some(t): return torch.cat([t.flatten()[:5], t.flatten()[-3:]]).tolist()\n"
                    "def near(t, want):\n"
                    "    assert all(abs(a - b) < 2e-6 for a, b in zip(some(t), want)), some(t)\n"
                    "def same(t, want): assert some(t) == want, some(t)\n"
                    "assert torch.rand(7, device=d).tolist() == %r\n"
                    "same(torch.rand(3, 1000, device=d), %r)\n"
                    "same(torch.rand(5000, device=d, dtype=torch.float16), %r)\n"
                    "same(torch.randint(0, 50257, (16, 1024), device=d), %r)\n"
                    "same(torch.randint(-5, 1000, (999,), device=d), %r)\n"
                    "same(torch.randint(0, 1 << 28, (64,), device=d), %r)\n"
                    "same(torch.randint(0, (1 << 28) + 12345, (64,), device=d), %r)\n"
                    "same(torch.randint(0, 77, (300000,), device=d, dtype=torch.int32), %r)\n"
                    "same(torch.randint(0, 77, (600000,), device=d), %r)\n"
                    "near(torch.randn(512, 3, device=d), %r)\n"
                    "same(torch.randn(512, 3, device=d, dtype=torch.bfloat16), %r)\n"
                    "same(torch.empty(100, 100, device=d).uniform_(-2, 3), %r)\n"
                    "near(torch.empty(100, 100, device=d).normal_(1, .5), %r)\n"
                    "same(torch.empty(100, 100, device=d).bernoulli_(.3), %r)\n"
                    "torch.empty(100, 100, device=d, dtype=torch.bool).bernoulli_(.3)\n"
                    "same(torch.bernoulli(torch.full((64, 99), .4, device=d)), %r)\n"
                    "same(torch.rand_like(torch.zeros(64, 64, device=d)), %r)\n"
                    "near(torch.randn_like(torch.zeros(64, 64, device=d)), %r)\n"
                    "same(torch.randint_like(torch.zeros(64, 64, device=d), 10), %r)\n"
                    "g = torch.Generator(device=d).manual_seed(5)\n"
                    "same(torch.rand(64, 64, device=d, generator=g), %r)\n"
                    "same(torch.randint(9, (64, 64), device=d, generator=g), %r)\n"
                    "assert torch.rand(3, device=d).tolist() == %r\n"
                    "assert int((torch.rand(32, 512, device=d) < .15).sum()) == %d\n"
                    "torch.randperm(20, device=d)\n"
                    "assert torch.rand(3, device=d).tolist() == %r\n"
                    % tuple(CARD_DREW))
        self.assertEqual(self.warned(), [])


class Counts(WithTorch):
    """Shapes that depend on data."""

    BEGIN = "m = (torch.arange(100) % 3 == 0).cuda()\nx = torch.randn(100, 8, device='cuda')\n"

    def test_known_masks_give_true_shapes(self):
        self.script(self.BEGIN + (
            "assert x[m].shape == (34, 8) and m.nonzero().shape == (34, 1)\n"
            "assert m.nonzero(as_tuple=True)[0].tolist() == list(range(0, 100, 3))\n"
            "assert torch.masked_select(x, m[:, None]).shape == (272,)\n"
            "assert torch.where(m)[0].tolist()[:3] == [0, 3, 6]\n"
            "v, inverse, counts = torch.arange(60).cuda().remainder(7).unique(return_inverse=True, return_counts=True)\n"
            "assert v.tolist() == list(range(7)) and counts.tolist() == [9] * 4 + [8] * 3\n"
            "assert inverse.tolist()[:9] == [0, 1, 2, 3, 4, 5, 6, 0, 1]\n"
            "assert torch.unique_consecutive(torch.tensor([1, 1, 2]).cuda()).tolist() == [1, 2]\n"
            "assert torch.bincount(torch.tensor([1, 1, 4]).cuda()).tolist() == [0, 2, 0, 0, 1]\n"
            "r = torch.tensor([200, 0, 312]).cuda()\n"
            "assert torch.repeat_interleave(torch.arange(3).cuda(), r).shape == (512,)\n"
            "assert torch.repeat_interleave(r).shape == (512,)\n"
            "assert torch.equal(r, r) and not torch.equal(r, r + 1)\n"
            "assert nn.functional.one_hot(torch.tensor([1, 4]).cuda()).shape == (2, 5)\n"
            "x[m] = 0.; assert x.shape == (100, 8)\n"))
        self.assertEqual(self.answer()["warnings"], [])

    def test_the_backward_counts_the_mask_again(self):
        self.script(self.BEGIN + "w = nn.Parameter(x.clone())\n(w * 2)[m].sum().backward()\n"
                    "assert w.grad.shape == (100, 8)\n"
                    "y = w * 2; y[m] = w[:34] * 3; y.sum().backward()\n")

    def test_of_unknown_numbers_every_element_is_counted_and_told(self):
        self.script(self.BEGIN + "u = (x @ x.T) > 0\nassert x[u[0]].shape == (100, 8)\n"
                    "assert u.nonzero().shape == (10000, 2)\n")
        self.assertEqual(self.warned(), [6, 7])


    def test_what_is_picked_by_places_in_unknown_numbers_is_as_many_as_it_would_be(self):
        """As detectors sample their boxes: every element is counted, then so many are taken."""
        self.script("big = torch.randn(300, 1000, device='cuda') > 0\n"
                    "rows, columns = torch.where(big)\nassert rows.numel() == 300000\n"
                    "assert int(rows[-1]) == 299 and int(columns[1000]) == 0\n"
                    "flat = torch.where(big.flatten())[0]\n"
                    "taken = flat[torch.randperm(flat.numel(), device='cuda')[:256]]\n"
                    "mask = torch.zeros(300000, dtype=torch.uint8, device='cuda')\n"
                    "mask[taken] = 1\nassert torch.where(mask)[0].numel() == 256\n")
        self.assertEqual(self.warned()[0], 4)

    def test_boxes_that_nobody_knows_are_all_kept(self):
        try:
            import torchvision  # noqa: F401
        except ImportError:
            self.skipTest("there is no torchvision")
        self.script("import torchvision\nboxes = torch.randn(20000, 4, device='cuda')\n"
                    "scores = torch.randn(20000, device='cuda')\n"
                    "keep = torchvision.ops.nms(boxes, scores, 0.5)\n"
                    "assert keep.numel() == 20000 and int(keep[7]) == 7\n")
        self.assertEqual(self.warned(), [6])


class FirstValues(WithTorch):
    def test_later_random_numbers_are_those_of_a_real_run(self):
        make = ("torch.manual_seed(5)\n"
                "a = nn.Linear(700, 300); b = nn.Embedding(1000, 77)\n"
                "nn.init.trunc_normal_(a.weight); nn.init.xavier_normal_(b.weight)\n"
                "c = torch.empty(70001).normal_(); d = torch.empty(300, 300, dtype=torch.float64).uniform_()\n"
                "e = torch.empty(66000, dtype=torch.bfloat16).normal_(); f = torch.randn(5000, 1001)\n"
                "print(torch.rand(4).tolist(), torch.randn(20).tolist())\n")
        real = subprocess.run([sys.executable, "-c", "import torch\nimport torch.nn as nn\n" + make],
                              stdout=subprocess.PIPE, universal_newlines=True, check=True)
        self.assertEqual(self.script(make).stdout, real.stdout)

    def test_weights_of_a_large_model_on_the_cpu_touch_no_pages(self):
        self.script("import resource\nbefore = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                    "net = nn.Sequential(*[nn.Linear(8192, 8192) for _ in range(16)])\n"
                    "net = net.to(torch.bfloat16).cuda(); torch.randn(20000, 10000)\n"
                    "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
                    "assert grown < 300 * 1024, grown\n"
                    "assert torch.cuda.memory_allocated() == 16 * (8192 * 8192 * 2 + 16384)\n")

    def test_small_tensors_and_integers_on_the_cpu_keep_their_numbers(self):
        self.script("assert torch.ones(65536).sum().item() == 65536\n"
                    "x = torch.empty(65536).fill_(2); assert x.mean().item() == 2\n"
                    "n = torch.zeros(1 << 20, dtype=torch.int64).fill_(3); assert n.sum().item() == 3 << 20\n"
                    "d = torch.tensor([1.0]).expand(70000).clone(); d.mul_(3); assert d.mean().item() == 3\n")


class Checkpoints(WithTorch):
    def test_a_checkpoint_can_be_loaded_again_and_takes_its_memory(self):
        got = self.script(
            "import os\n"
            "net = nn.Linear(2000, 2000).cuda(); opt = torch.optim.AdamW(net.parameters())\n"
            "net(torch.randn(4, 2000, device='cuda')).sum().backward(); opt.step()\n"
            "torch.save({'net': net.state_dict(), 'opt': opt.state_dict(), 'tied': [net.weight] * 2, 'step': 5}, 'c.pt')\n"
            "assert os.path.getsize('c.pt') < 100000\n"
            "def asked(): return torch.cuda.memory_stats()['requested_bytes.all.current']\n"
            "before = asked()\ngot = torch.load('c.pt', map_location='cuda')\n"
            "assert asked() - before == 3 * (16000000 + 8000) + 2 * 4, asked() - before\n"
            "assert got['step'] == 5 and got['tied'][0].data_ptr() == got['tied'][1].data_ptr()\n"
            "got = torch.load('c.pt', map_location='cpu', weights_only=True)\n"
            "net.load_state_dict(got['net']); opt.load_state_dict(got['opt'])\n"
            "assert got['net']['bias'].device.type == 'cpu'\n", harmless="hooks")
        self.assertEqual(got.stdout, "")
        self.assertEqual(self.answer()["skipped_writes"], ["c.pt"])
        self.assertNotIn("c.pt", os.listdir(self.place))

    def test_pickling_and_small_buffers_work_as_before(self):
        self.script("import io, pickle\n"
                    "x = pickle.loads(pickle.dumps(torch.arange(3))); assert x.tolist() == [0, 1, 2]\n"
                    "b = io.BytesIO(); torch.save(nn.Linear(2, 2), b); b.seek(0)\n"
                    "assert torch.load(b, weights_only=False).weight.shape == (2, 2)\n")


class Own(WithTorch):
    """PyTorch's own ways are not changed by our being there."""

    def test_compiled_functions_run_without_our_mode(self):
        self.script("from torch.overrides import _get_current_function_mode_stack as stack\n"
                    "seen = []\n"
                    "def backend(graph, inputs):\n"
                    "    seen.append(len(stack())); return graph.forward\n"
                    "@torch.compile(backend=backend, fullgraph=True)\ndef f(x):\n"
                    "    return x * 2 + 1\n"
                    "f(torch.ones(3, device='cuda'))\n"
                    "net = torch.compile(nn.Linear(3, 3).cuda(), backend=backend, fullgraph=True)\n"
                    "net(torch.ones(3, device='cuda'))\n"
                    "assert seen == [0, 0] and len(stack()) == 1, seen\n")

    def test_the_encoders_fast_path_in_evaluation_is_taken(self):
        script = ("net = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 2).cuda().eval()\n"
                  "calls = []\nreal = torch._transformer_encoder_layer_fwd\n"
                  "torch._transformer_encoder_layer_fwd = lambda *a: calls.append(1) or real(*a)\n"
                  "with torch.no_grad(): net(torch.randn(8, 64, 256, device='cuda'))\n"
                  "assert len(calls) == 2\n")
        self.script(script)

    def test_a_padding_mask_makes_the_nested_tensor_that_it_would_make(self):
        self.script("m = torch.zeros(4, 8, dtype=torch.bool)\n"
                    "for row, n in enumerate((8, 4, 2, 6)): m[row, :n] = True\n"
                    "x = torch.randn(4, 8, 16, device='cuda')\nmask = m.cuda()\n"
                    "assert torch._nested_tensor_from_mask_left_aligned(x, mask)\n"
                    "n = torch._nested_tensor_from_mask(x, mask)\n"
                    "assert n.is_cuda and [one.size(0) for one in n.unbind()] == [8, 4, 2, 6]\n"
                    "assert torch.nested.to_padded_tensor(n, 0.0).size() == x.size()\n"
                    "m[0, 2] = False\n"
                    "assert not torch._nested_tensor_from_mask_left_aligned(x, m.cuda())\n")
        self.assertEqual(self.answer()["warnings"], [])

    def test_of_an_unknown_padding_mask_the_padded_form_is_taken_and_told(self):
        self.script("x = torch.randn(64, 2048, 16, device='cuda')\n"
                    "mask = x[:, :, 0] > 0\n"
                    "assert not torch._nested_tensor_from_mask_left_aligned(x, mask)\n")
        self.assertEqual(self.warned(), [5])

    def test_a_mask_of_floats_may_have_as_many_bytes_as_one_of_flags(self):
        """-inf where the mask is true, as nn.Transformer makes it, decides like the mask itself."""
        self.script("m = torch.zeros(512, 256, dtype=torch.bool); m[3, 200:] = True\n"
                    "f = torch.zeros((512, 256), device='cuda').masked_fill_(m.cuda(), "
                    "float('-inf'))\n"
                    "assert int(f.logical_not().sum()) == 512 * 256 - 56\n")
        self.filled(2 << 20)  # 8 MiB is the most
        self.assertEqual(self.warned(), [])

    def test_a_larger_mask_of_floats_is_unknown(self):
        self.filled((2 << 20) + 1)
        self.assertEqual(self.warned(), [4])

    def filled(self, count):
        self.script("f = torch.zeros(%d, device='cuda').masked_fill_(torch.tensor(True).cuda(), "
                    "7.0)\nassert f[-1:].clone().item() == 7.0\n" % count)

    def test_a_graph_of_the_gpu_is_captured_and_replayed(self):
        self.script("x = torch.randn(64, 64, device='cuda')\ns = torch.cuda.Stream()\n"
                    "with torch.cuda.stream(s): (x @ x).sum()\ng = torch.cuda.CUDAGraph()\n"
                    "with torch.cuda.graph(g): y = (x @ x).sum()\ng.replay(); y.item()\n")


class Rows(WithTorch):
    """The measured rows: to the byte with the version that they were measured with; with others the
    differences are those of PyTorch, and the table keeps them."""

    def row(self, name, script, arguments, steps):
        with open(os.path.join(options["rows"], name + ".json")) as file:
            truth = json.load(file)
        self.run_file([os.path.join(options["rows"], script)] + arguments, steps=steps)
        answer = self.answer()
        errors = [[got["allocated_bytes"] - true["allocated"], got["reserved_bytes"] - true["reserved"]]
                  for got, true in zip(answer["steps"], truth["steps"])]
        options["table"].setdefault(answer["torch"], {})[name] = {
            "steps": [[one["allocated_bytes"], one["reserved_bytes"]] for one in answer["steps"]],
            "errors": errors, "seconds": answer["end"]["seconds"]}
        self.assertEqual(len(answer["steps"]), len(truth["steps"]))
        if answer["torch"].startswith(EXACT):
            self.assertEqual(errors, [[0, 0]] * len(errors))
            self.assertEqual(answer["peak"], {"allocated_bytes": truth["peak"]["allocated"],
                                              "reserved_bytes": truth["peak"]["reserved"]})

    def test_the_measured_rows(self):
        if not options["rows"]:
            self.skipTest("--rows was not given")
        for name, script, arguments, steps, wants_transformers in ROWS:
            if wants_transformers and not _has("transformers"):
                continue
            with self.subTest(name):
                shutil.rmtree(self.out)
                os.mkdir(self.out)
                self.row(name, script, arguments, steps)


def _has(name):
    import importlib.util
    return importlib.util.find_spec(name) is not None


def _take(name):
    if name not in sys.argv:
        return None
    at = sys.argv.index(name)
    value = sys.argv[at + 1]
    del sys.argv[at:at + 2]
    return os.path.abspath(value)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    libraries = [os.path.abspath(one) for one in sys.argv.pop(1).split(":")]
    options.update(library=libraries[0], preload=":".join(libraries), rows=_take("--rows"),
                   save=_take("--save"), table={})
    done = unittest.main(exit=False)
    if options["save"]:
        with open(options["save"], "w") as table:
            json.dump(options["table"], table, indent=1, sort_keys=True)
    sys.exit(not done.result.wasSuccessful())
