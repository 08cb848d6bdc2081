"""The explorer in Chromium: from a keystroke to the bars, and from opening the page to its first bars.

python bench/explorer.py MODEL TEXT [--keys 400] [--attention NETWORK] [--static]

The text is typed letter by letter. Each letter waits for the bars of the one before, so that all of them are timed; the
time ends with the frame after the new bars are in the page. NETWORK, with tokens of single letters: the time until the
attention of 512 tokens is painted. --static: the same of the model's page without a server, opened from the disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import circumstances

import chainrule

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import Browser, Page  # the tests' own

_TYPE = """(async keys => {
  const field = document.querySelector("[name=text]"), result = document.querySelector("#result"), times = [];
  for (const key of keys) {
    const start = performance.now();
    const drawn = new Promise(done => {
      const observer = new MutationObserver(() => { observer.disconnect(); done(performance.now()); });
      observer.observe(result, { childList: true });
    });
    field.value += key;
    field.dispatchEvent(new Event("input"));
    const inPage = await drawn - start;
    await new Promise(done => requestAnimationFrame(done));
    times.push([inPage, performance.now() - start]);
  }
  return times;
})"""

# From a change of the text, or a click, to the frame with the new map.
_ATTEND = """(async act => {
  const result = document.querySelector("#result"), start = performance.now();
  const drawn = new Promise(done => new MutationObserver(done).observe(result, { childList: true }));
  act();
  await drawn;
  await result.querySelector(".map").decode();
  await new Promise(done => requestAnimationFrame(done));
  return performance.now() - start;
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--keys", type=int, default=400)
    parser.add_argument("--attention", type=Path, metavar="NETWORK")
    parser.add_argument("--static", action="store_true")
    given = parser.parse_args()
    letters = given.text.read_text(encoding="utf-8")[: given.keys].replace("\n", " ")
    models = [f"lm={given.model}", *([f"network={given.attention}"] if given.attention else [])]
    command = [sys.executable, "-m", "chainrule", "explore", *models, "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            browser = Browser(Path(profile))
            for opening in ("first", "second"):  # the first one opens the model, too
                start = time.perf_counter()
                page = browser.open(address)
                page.wait("document.querySelector('.bars')")
                print(f"{opening} opening, to its bars: {time.perf_counter() - start:.2f} s")
                paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
                print(f"  first paint after {page.evaluate(paint):.0f} ms")
            time_keys(page, letters)
            if given.attention:
                time_attention(browser, address, given.text.read_text(encoding="utf-8")[:511])
            if given.static:
                time_static(browser, given.model, letters, Path(profile) / "page.html")
            browser.close()
    finally:
        server.terminate()
        server.wait()
    print(circumstances())


def time_keys(page: Page, letters: str) -> None:
    """Prints how long the bars take after each letter."""
    page.evaluate(f"{_TYPE}({json.dumps(letters[:20])})")  # warm
    times = np.array(page.evaluate(f"{_TYPE}({json.dumps(letters[20:])})"))
    for name, column in zip(("bars in the page", "and painted"), times.T, strict=True):
        p50, p95, p99 = np.percentile(column, [50, 95, 99])
        print(f"{len(column)} keystrokes, {name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")


def time_static(browser: Browser, model: Path, letters: str, path: Path) -> None:
    """Prints how long a page that computes by itself takes from its opening to its first bars, and after letters."""
    chainrule.explore({"lm": chainrule.load(model)}).save(path)
    print(f"without a server, {path.stat().st_size:,} bytes")
    for _ in range(5):
        page = browser.open(path.as_uri())
        page.wait("document.querySelector('.bars')")
        print(f"  opening, to its bars: {page.evaluate('performance.now()'):.0f} ms")
    time_keys(page, letters)


def time_attention(browser: Browser, address: str, text: str) -> None:
    """Prints how long it takes until the attention of a text is painted, and of other heads and rows."""
    page = browser.open(f"{address}#view=attention&model=network&text=a")
    page.wait("document.querySelector('.map')")
    write = (
        "() => { const field = document.querySelector('[name=text]');"
        f" field.value = {json.dumps(text.replace(chr(10), ' '))}; field.dispatchEvent(new Event('input')); }}"
    )
    print(f"attention, text to picture: {page.evaluate(f'{_ATTEND}({write})'):.0f} ms", end=", ")
    print(f"{page.evaluate('document.querySelectorAll(`.heads canvas`).length')} heads", end=", ")
    tokens = "document.querySelectorAll('[aria-label=\"Token that looks\"] option').length"
    print(f"{page.evaluate(tokens)} tokens")
    rows = {"head": "tr:has([aria-pressed=true])", "layer": "tr:not(:has([aria-pressed=true]))"}
    for what, row in rows.items():
        click = f"() => document.querySelector('.heads {row} button[aria-pressed=false]').click()"
        print(f"  another {what}: {page.evaluate(f'{_ATTEND}({click})'):.0f} ms")


if __name__ == "__main__":
    main()
