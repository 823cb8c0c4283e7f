#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report page in a browser: it draws, zooms, tells, sorts, and what it says is what the recording says.

usage: tests/browser/test_page.py PROGRAM [--shots FOLDER]

PROGRAM is the plimsoll to test. Needs Chromium, its driver and selenium for Python (Debian: chromium
chromium-driver python3-selenium); where one is missing, says so and exits with 77, which ctest counts as skipped.
With --shots, pictures at both widths and in both colour schemes are left in FOLDER to be looked at.
"""
import decimal
import json
import lzma
import os
import pathlib
import pickle
import shutil
import sys
import tempfile
import time
import unittest

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests/data/snapshots"


def skip(why):
    print(f"browser test skipped: {why}")
    sys.exit(SKIPPED)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:  # Debian's package belongs to the system's Python
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    skip("selenium for Python is missing (Debian: python3-selenium)")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not CHROMIUM or not DRIVER:
    skip("Chromium or its driver is missing (Debian: chromium chromium-driver)")

PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else str(ROOT / "build/plimsoll")
SHOTS = sys.argv[sys.argv.index("--shots") + 1] if "--shots" in sys.argv else None


def size(count):
    """A size as the page writes it."""
    if count < 1024:
        return f"{count} B"
    for unit, digits in (("KiB", 1), ("MiB", 1), ("GiB", 2), ("TiB", 2)):
        count /= 1024
        if count < 1024:
            exact = decimal.Decimal(count).quantize(decimal.Decimal(10) ** -digits, decimal.ROUND_HALF_UP)
            return f"{exact} {unit}"
    raise ValueError(count)


def live_after(name):
    """Live bytes after each recorded event, worked out backwards from the final state."""
    with lzma.open(RECORDINGS / f"{name}.pickle.xz") as file:
        snapshot = pickle.load(file)
    live = sum(block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"]
               if block["state"] != "inactive")
    sums = []
    for event in reversed(snapshot["device_traces"][0]):
        sums.append(live)
        live += {"alloc": -1, "free_completed": 1}.get(event["action"], 0) * event["size"]
    return sums[::-1]


class Page(unittest.TestCase):
    name = "gpt350m_amp_b4_t2048_cap12g"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = os.path.join(cls.folder.name, "report.html")
        recording = RECORDINGS / f"{cls.name}.pickle.xz"
        if os.spawnv(os.P_WAIT, PROGRAM, [PROGRAM, "report", str(recording), "--out", cls.file]) != 0:
            raise RuntimeError("plimsoll report failed")
        text = pathlib.Path(cls.file).read_text(encoding="utf-8")
        cls.data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])["sources"][0]
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--disable-dev-shm-usage", "--force-device-scale-factor=1"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.browser = webdriver.Chrome(service=Service(DRIVER), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    def setUp(self):
        self.look(1280, "light")
        self.browser.get("file://" + self.file)
        self.wait(lambda: self.find("legend").text != "")

    def tearDown(self):
        errors = [entry["message"] for entry in self.browser.get_log("browser")]
        self.assertEqual(errors, [], "the console stays empty")

    def look(self, width, scheme, height=1000):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def find(self, name):
        return self.browser.find_element(By.ID, name)

    def run_script(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition, seconds=5):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(.02)

    def settle(self):
        """Until two frames have been drawn."""
        self.browser.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))")

    def picture(self, name):
        self.settle()
        return self.run_script("return document.getElementById(arguments[0]).toDataURL()", name)

    def choose(self, event):
        self.run_script("const s = document.getElementById('slider'); s.value = arguments[0];"
                        "s.dispatchEvent(new Event('input'))", event)
        self.settle()

    def over(self, name, x, y):
        """Moves the mouse to a part of an element, both from 0 to 1."""
        element = self.find(name)
        self.run_script("arguments[0].scrollIntoView({block: 'center'})", element)
        self.settle()
        ActionChains(self.browser, duration=0).move_to_element_with_offset(
            element, int((x - .5) * element.size["width"]), int((y - .5) * element.size["height"])).perform()
        self.settle()

    def column(self, place):
        return [row.find_elements(By.TAG_NAME, "td")[place].text
                for row in self.browser.find_elements(By.CSS_SELECTOR, "#table tbody tr.main")]

    def test_nothing_is_fetched(self):
        self.assertEqual(self.run_script("return performance.getEntriesByType('resource').length"), 0)

    def test_the_summary_says_the_peak(self):
        self.assertIn(size(self.data["peak_bytes"]), self.find("tiles").text)
        self.assertIn(size(self.data["peak_bytes"]), self.find("story").text)
        self.assertIn("gpt_torch.py:29", self.find("story").text)

    def test_live_memory_at_any_instant_is_that_of_the_recording(self):
        sums, carried = live_after(self.name), self.data["carried_in"]
        for event in range(0, len(sums), 37):
            self.choose(event + carried)
            self.assertEqual(self.find("legend-sum").text.split("\n")[1], size(sums[event]), f"at event {event}")

    def test_the_wheel_zooms_and_0_shows_all_again(self):
        whole = self.picture("chart")
        self.over("chart", .6, .5)
        chart = self.find("chart")
        self.run_script(
            "const r = arguments[0].getBoundingClientRect(); arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -400,"
            "clientX: r.left + r.width * .6, clientY: r.top + 100, bubbles: true, cancelable: true}))", chart)
        near = self.picture("chart")
        self.assertNotEqual(near, whole)
        chart.send_keys("0")
        self.assertEqual(self.picture("chart"), whole)
        chart.send_keys("+", "+")
        nearer = self.picture("chart")
        self.assertNotEqual(nearer, whole)
        chart.send_keys(Keys.ARROW_LEFT)
        self.assertNotEqual(self.picture("chart"), nearer)
        self.find("zoom-all").click()
        self.assertEqual(self.picture("chart"), whole)

    def test_a_drag_zooms_and_a_click_chooses(self):
        whole = self.picture("chart")
        chart = self.find("chart")
        ActionChains(self.browser, duration=20).move_to_element(chart).click_and_hold().move_by_offset(
            120, 0).release().perform()
        self.assertNotEqual(self.picture("chart"), whole)
        self.find("zoom-all").click()
        self.settle()
        before = self.find("instant-at").text
        ActionChains(self.browser, duration=0).move_to_element_with_offset(chart, -200, 0).click().perform()
        self.settle()
        self.assertNotEqual(self.find("instant-at").text, before)

    def test_hovering_tells_the_block_and_its_life(self):
        self.over("chart", .75, .9)
        tip = self.find("tip").text
        for words in ("born at event", "address 0x", "gpt_torch.py"):
            self.assertIn(words, tip)
        self.over("story", .5, .5)
        self.assertFalse(self.find("tip").is_displayed())

    def test_the_axis_and_the_grouping_change_the_picture(self):
        pictures = {self.picture("chart")}
        for button in self.browser.find_elements(By.CSS_SELECTOR, "#axis button")[::-1]:
            button.click()
            pictures.add(self.picture("chart"))
        self.assertEqual(len(pictures), 2)
        self.find("show-reserved").click()
        pictures.add(self.picture("chart"))
        self.assertEqual(len(pictures), 3)

    def test_a_click_on_a_title_sorts(self):
        self.run_script("[...document.querySelectorAll('#tabs button')].find(b => b.dataset.tab === 'blocks').click()")
        self.settle()

        def born():
            return [int(text.replace(",", "")) for text in self.column(1)]

        for order in (True, False):
            self.browser.find_elements(By.CSS_SELECTOR, "#table th button")[1].click()
            self.settle()
            self.assertEqual(born(), sorted(born(), reverse=order))
            self.assertGreater(len(set(born())), 5)

    def test_every_list_opens_and_finds(self):
        for button in self.browser.find_elements(By.CSS_SELECTOR, "#tabs button"):
            button.click()
            self.settle()
            self.assertGreater(len(self.column(0)), 0, button.text)
        self.browser.find_elements(By.CSS_SELECTOR, "#tabs button")[0].click()
        self.find("filter").send_keys("py:29")
        self.settle()
        self.assertTrue(all("gpt_torch.py:29" in text for text in self.column(4)))
        row = self.browser.find_element(By.CSS_SELECTOR, "#table tbody tr.main")
        row.click()
        self.assertIn("snapshots_torch.py", self.browser.find_element(By.CSS_SELECTOR, "tr.more").text)

    def test_the_map_follows_the_instant_and_tells_segments(self):
        peak = self.picture("map")
        self.assertIn(f"{size(self.data['reserved_at_peak_bytes'])} reserved", self.find("instant-at").text)
        self.find("step-back").click()
        self.browser.find_element(By.CSS_SELECTOR, "[data-instant=end]").click()
        self.assertNotEqual(self.picture("map"), peak)
        self.browser.find_element(By.CSS_SELECTOR, "[data-instant=failure]").click()
        self.settle()
        self.assertIn(f"event {self.data['failures'][0]['event']} of", self.find("instant-at").text)
        self.over("map", .5, .02)
        self.assertIn("segment 0x", self.find("tip").text)
        ActionChains(self.browser, duration=0).click().perform()
        self.settle()
        self.assertTrue(self.find("segment-filter").is_displayed())
        self.assertGreater(len(self.column(0)), 0)

    def test_both_schemes_and_widths_are_drawn(self):
        seen = set()
        for width in (1280, 1920):
            for scheme in ("light", "dark"):
                self.look(width, scheme)
                self.settle()
                seen.add(self.picture("chart"))
                wide = self.run_script("return document.documentElement.scrollWidth")
                self.assertLessEqual(wide, width, "nothing sticks out sideways")
                if SHOTS:
                    os.makedirs(SHOTS, exist_ok=True)
                    self.look(width, scheme, self.run_script("return document.documentElement.scrollHeight"))
                    self.settle()
                    self.browser.save_screenshot(os.path.join(SHOTS, f"{type(self).__name__}-{width}-{scheme}.png"))
        self.assertEqual(len(seen), 4)


class LongPage(Page):
    """85,000 events: drawn from bins when seen whole. Only what depends on the length."""
    name = "gpt_dynamic_length_60_steps"
    test_hovering_tells_the_block_and_its_life = None
    test_every_list_opens_and_finds = None
    test_the_axis_and_the_grouping_change_the_picture = None
    test_a_click_on_a_title_sorts = None
    test_the_map_follows_the_instant_and_tells_segments = None

    def test_the_summary_says_the_peak(self):
        self.assertIn(size(self.data["peak_bytes"]), self.find("tiles").text)

    def test_live_memory_at_any_instant_is_that_of_the_recording(self):
        sums, carried = live_after(self.name), self.data["carried_in"]
        for event in range(0, len(sums), 1997):
            self.choose(event + carried)
            self.assertEqual(self.find("legend-sum").text.split("\n")[1], size(sums[event]), f"at event {event}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
