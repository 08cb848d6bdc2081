"""The explorer in Chromium: from a keystroke to the bars, and from opening the page to its first bars.

python bench/explorer.py MODEL TEXT [--keys 400]

The text is typed letter by letter. Each letter waits for the bars of the one before, so that all of them are timed; the
time ends with the frame after the new bars are in the page.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serving"))
from browser import Browser  # the tests' own

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--keys", type=int, default=400)
    given = parser.parse_args()
    letters = given.text.read_text(encoding="utf-8")[: given.keys].replace("\n", " ")
    command = [sys.executable, "-m", "chainrule", "explore", str(given.model), "--no-browser", "--port", "0"]
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
            page.evaluate(f"{_TYPE}({json.dumps(letters[:20])})")  # warm
            times = np.array(page.evaluate(f"{_TYPE}({json.dumps(letters[20:])})"))
            for name, column in zip(("bars in the page", "and painted"), times.T, strict=True):
                p50, p95, p99 = np.percentile(column, [50, 95, 99])
                print(f"{len(column)} keystrokes, {name}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")
            browser.close()
    finally:
        server.terminate()
        server.wait()
    print(circumstances())


if __name__ == "__main__":
    main()
