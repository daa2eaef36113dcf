#!/usr/bin/env python3
"""Look at the pages of `tandem report` in headless Chromium.

usage: check_report.py --tandem PATH [--screenshots DIR] [--keep PNG] [FILE...]   (without files: examples, the corpus, a hostile kernel)

Needs chromium, chromedriver, and the PyPI package selenium. Every page: less than 2 MB, byte-equal when made again. In the browser,
at 360 and 1280 pixels, light and dark: no message on the console, nothing loaded, no horizontal scrolling, something drawn in every
chart, a label on everything that takes the focus, and keys that move, select, zoom and pan. The colours of the style have a contrast
of 4.5 (text) and 3 (marks) to what they stand on. `--keep docs/report.png` takes the picture that the README shows anew.
Last line: `N passed, M failed`.
"""
import argparse, glob, os, re, shutil, subprocess, sys, tempfile

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LARGEST = 2_000_000


class Bad(Exception):
    pass


def need(ok, what):
    if not ok:
        raise Bad(what)


def browser(profile):
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    need(binary and driver, "chromium and chromedriver are not installed")
    o = webdriver.ChromeOptions()
    o.binary_location = binary
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-dev-shm-usage",
                 "disable-component-update", "disable-sync", "hide-scrollbars", f"user-data-dir={profile}", "force-device-scale-factor=1"):
        o.add_argument("--" + flag)
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=o, service=webdriver.ChromeService(executable_path=driver))


def show(d, url, width, scheme):
    d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    d.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]})
    d.get_log("browser")
    d.get(url)
    frames(d)


def frames(d):
    """Waits until two frames have been drawn."""
    d.execute_async_script("const f = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => f()));")


COLOURS = """
return [...document.querySelectorAll('.chart canvas')].map(c => {
  const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let i = 0; i < p.length; i += 4 * 7) seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]);
  return seen.size;
});
"""

UNNAMED = """
return [...document.querySelectorAll('a, button, summary, [tabindex="0"]')]
  .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80));
"""

WIDE = """
const w = document.documentElement.clientWidth;
return [document.documentElement.scrollWidth - w, ...[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.hidden, .skip, thead, svg') && e.getBoundingClientRect().right > w + 1).map(e => e.outerHTML.slice(0, 90)).slice(0, 3)];
"""


def look(d, url, width, scheme, charts):
    show(d, url, width, scheme)
    wide = d.execute_script(WIDE)
    need(wide[0] <= 0 and len(wide) == 1, f"{width} px: wider than the window: {wide}")
    need(not d.execute_script(UNNAMED), f"without a name: {d.execute_script(UNNAMED)}")
    need(d.execute_script("return performance.getEntriesByType('resource').length") == 0, "something is loaded")
    drawn = d.execute_script(COLOURS)
    need(all(n > 4 for n in drawn) and (drawn or not charts), f"{width} px {scheme}: charts with nothing in them: {drawn}")
    log = d.get_log("browser")
    need(not log, f"console: {log[:2]}")
    return len(drawn)


HOVER = """
const box = document.getElementById('chart-timeline'), r = box.getBoundingClientRect(), tip = document.getElementById('tip');
for (let y = 30; y < r.height; y += 4) for (let x = 70; x < r.width; x += 3) {
  box.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + x, clientY: r.top + y, pointerId: 7, bubbles: true}));
  if (!tip.hidden) {
    const t = tip.getBoundingClientRect(), inside = t.left >= 0 && t.right <= innerWidth;
    const said = tip.textContent;
    box.dispatchEvent(new PointerEvent('pointerleave', {pointerId: 7}));
    return [said, inside, tip.hidden];
  }
}
return ['', false, false];
"""


def pointer(d):
    """Pointing at a slice says what it is; Ctrl with the wheel zooms, the wheel alone scrolls the page."""
    said, inside, gone = d.execute_script(HOVER)
    need("core" in said and "from" in said, f"pointing says {said!r}")
    need(inside and gone, "the tip is outside of the window or stays")
    wheel = "const e = new WheelEvent('wheel', {deltaY: -50, ctrlKey: arguments[1], bubbles: true, cancelable: true}); arguments[0].dispatchEvent(e); return e.defaultPrevented;"
    chart, whole = d.find_element(By.ID, "chart-timeline"), d.find_element(By.ID, "range").text
    need(not d.execute_script(wheel, chart, False), "the wheel alone is taken from the page")
    need(d.execute_script(wheel, chart, True), "Ctrl with the wheel zooms the page")
    frames(d)
    need(d.find_element(By.ID, "range").text != whole, "Ctrl with the wheel does not zoom")
    chart.send_keys("0")


def keys(d):
    """The keyboard alone reaches every slice, zooms and pans."""
    chart = d.find_element(By.ID, "chart-timeline")
    said = lambda: d.find_element(By.ID, "timeline-detail").text
    shown = lambda: d.find_element(By.ID, "range").text
    body = d.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    for _ in range(60):
        if d.switch_to.active_element == chart:
            break
        d.switch_to.active_element.send_keys(Keys.TAB)
    need(d.switch_to.active_element == chart, "the timeline is not reached by the tabulator")
    need(d.execute_script("return getComputedStyle(arguments[0]).outlineStyle", chart) == "solid", "the focus is not to be seen")

    def press(*k):
        chart.send_keys(*k)
        frames(d)

    press(Keys.ARROW_RIGHT)
    first = said()
    need("core 0" in first and "from" in first, f"the first key selects nothing: {first}")
    lanes = {first}
    for _ in range(3):
        press(Keys.ARROW_DOWN)
        lanes.add(said())
    need(len(lanes) > 1, "the lanes all say the same")
    whole = shown()
    press("+")
    press("+")
    near = shown()
    need(near != whole, "+ does not zoom")
    before = near
    for k in (Keys.ARROW_LEFT, Keys.ARROW_RIGHT):
        press(Keys.SHIFT, k)
        need(shown() != before or k == Keys.ARROW_LEFT, "Shift with an arrow does not pan")
        before = shown()
    press("0")
    need(shown() == whole, "0 does not show the whole run")
    press(Keys.ENTER)
    need(d.execute_script("return document.activeElement.className").startswith("inst"), "Enter does not lead to the code")
    press(Keys.ESCAPE)
    need(said() == "Nothing selected.", "Esc keeps the selection")
    for b in d.find_elements(By.CSS_SELECTOR, "[data-do]"):
        b.click()
        frames(d)
    need(shown() == whole, "the last button does not show the whole run")
    for m in d.find_elements(By.CSS_SELECTOR, ".chart.memory"):
        m.send_keys(Keys.ARROW_RIGHT)
        detail = d.find_element(By.ID, m.get_attribute("aria-describedby"))
        need("in use from" in detail.text, f"the memory map says {detail.text!r}")
    log = d.get_log("browser")
    need(not log, f"console after keys: {log[:2]}")


def report(tandem, file, path, *extra):
    p = subprocess.run([tandem, "report", file, "-o", path, "--random", "1", *extra], capture_output=True, text=True)
    need(p.returncode in (0, 1, 3), f"exit {p.returncode}: {p.stderr.strip()[-300:]}")
    need(os.path.exists(path), f"no page: {p.stderr.strip()[-300:]}")
    with open(path, "rb") as f:
        page = f.read()
    need(len(page) < LARGEST, f"{len(page)} bytes")
    return page


HOSTILE = "</script><script>document.title='owned'</script><!--<img src=x onerror=alert(1)>&\\\"'"


def hostile(tmp):
    """A kernel whose names are markup."""
    path = os.path.join(tmp, "hostile.bir")
    with open(os.path.join(ROOT, "testdata", "report", "hostile.bir")) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace("NAME", HOSTILE))
    return path


# ---- contrast ----

def luminance(c):
    v = [int(c[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    v = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in v]
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]


def contrast(a, b):
    x, y = sorted((luminance(a), luminance(b)), reverse=True)
    return (x + 0.05) / (y + 0.05)


PAIRS = [(4.5, "ink muted accent sync good bad warn", "bg"), (4.5, "ink muted", "panel"), (4.5, "ink muted", "open-bg"), (4.5, "ink muted good", "good-bg"),
         (4.5, "ink muted bad", "bad-bg"), (4.5, "ink muted warn", "warn-bg"), (4.5, "on-box", "compute"), (4.5, "on-box", "move"), (4.5, "on-box", "control"),
         (4.5, "on-box", "sync"), (3, "compute move sync control link", "bg"), (4.5, "ink", "wait")]


def colours():
    with open(os.path.join(ROOT, "crates", "report", "assets", "report.css")) as f:
        css = f.read()
    light, dark = css.split("@media (prefers-color-scheme: dark)", 1)
    read = lambda text: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", text))
    light, dark = read(light), read(dark.split("* {", 1)[0])
    need(len(light) > 20 and light.keys() == dark.keys(), f"colours of one scheme only: {light.keys() ^ dark.keys()}")
    for scheme, c in (("light", light), ("dark", dark)):
        for least, fronts, back in PAIRS:
            for front in fronts.split():
                k = contrast(c[front], c[back])
                need(k >= least, f"{scheme}: {front} on {back} has a contrast of {k:.2f}, less than {least}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--tandem", required=True)
    a.add_argument("--screenshots")
    a.add_argument("--keep")
    a.add_argument("files", nargs="*")
    a = a.parse_args()
    files = a.files or sorted(glob.glob(f"{ROOT}/examples/*.klr") + glob.glob(f"{ROOT}/testdata/klr/*.klr") + glob.glob(f"{ROOT}/examples/kernels/*.klr"))
    good = bad = 0

    def case(name, f):
        nonlocal good, bad
        try:
            said = f()
            print(f"ok    {name}{': ' + said if said else ''}", flush=True)
            good += 1
        except Bad as e:
            print(f"FAIL  {name}: {e}", flush=True)
            bad += 1

    case("colours", colours)
    with tempfile.TemporaryDirectory() as tmp:
        try:
            d = browser(os.path.join(tmp, "profile"))
        except Bad as e:
            print(f"FAIL  browser: {e}")
            print(f"{good} passed, {bad + 1} failed")
            return 1
        try:
            path = os.path.join(tmp, "report.html")
            url = "file://" + path

            def page(f):
                size = len(report(a.tandem, f, path))
                timed = b'id="chart-timeline"' in open(path, "rb").read()
                charts = [look(d, url, w, s, timed) for w in (360, 1280) for s in ("light", "dark")]
                if timed:
                    keys(d)
                    pointer(d)
                if a.screenshots:
                    shots(d, url, a.screenshots, os.path.basename(f))
                return f"{size} bytes, {charts[0]} charts"

            for f in files:
                case(os.path.basename(f), lambda: page(f))

            def bytes_again():
                f = files[0]
                need(report(a.tandem, f, path) == report(a.tandem, f, path), "two runs write different bytes")

            def keep():
                report(a.tandem, files[0], path)
                show(d, url, 1280, "light")
                d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 1160, "deviceScaleFactor": 1, "mobile": False})
                frames(d)
                d.save_screenshot(a.keep)

            case("same bytes again", bytes_again)
            if a.keep:
                case("picture of the README", keep)
            case("picture in docs", kept)
            if not a.files:
                case("hostile names", lambda: names(d, a.tandem, hostile(tmp), path, url))
        finally:
            d.quit()
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


def kept():
    path = os.path.join(ROOT, "docs", "report.png")
    need(os.path.exists(path), "docs/report.png is missing")
    with open(path, "rb") as f:
        png = f.read()
    need(png[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(png[16:20], "big") == 1280, "docs/report.png is no picture of 1280 pixels")
    need(len(png) < 300_000, f"docs/report.png has {len(png)} bytes")


def names(d, tandem, file, path, url):
    report(tandem, file, path)
    look(d, url, 360, "light", True)
    need(d.title != "owned", "a name ran as a script")
    need(d.find_elements(By.TAG_NAME, "img") == [], "a name became an element")
    need(HOSTILE.replace("\\\"", "\"") in d.find_element(By.TAG_NAME, "h1").text, f"the name is not shown: {d.find_element(By.TAG_NAME, 'h1').text}")
    keys(d)


def shots(d, url, folder, name):
    os.makedirs(folder, exist_ok=True)
    for width in (360, 1280):
        for scheme in ("light", "dark"):
            show(d, url, width, scheme)
            height = d.execute_script("return document.documentElement.scrollHeight")
            d.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
            frames(d)
            d.save_screenshot(os.path.join(folder, f"{name}-{width}-{scheme}.png"))


if __name__ == "__main__":
    sys.exit(main())
