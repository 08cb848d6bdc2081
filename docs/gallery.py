"""Runs the commands of the gallery in an empty folder, and writes its pictures: make pictures.

A picture gallery/x.svg is what a command wrote as x.svg, gallery/x.png what Chromium shows of the page x.html, and
gallery/x-dark.png the same in the dark.
"""

from __future__ import annotations

import argparse
import base64
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from lectures import commands_of, run
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import CHROMIUM, Browser  # the tests' own

PAGE = Path(__file__).with_name("gallery.md")
WIDTH, HEIGHT, COLOURS = 900, 620, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, help="an empty folder to run in; by default a new one, removed afterwards"
    )
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("there is no Chromium, which pictures of pages need; install one: apt install chromium")
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = (options.folder or Path(scratch) / "work").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for command in commands_of(text):
            run(command, folder)
        browser = Browser(Path(scratch) / "profile")
        for name in re.findall(r"\]\((gallery/[^)]+)\)", text):
            target = PAGE.parent / name
            target.parent.mkdir(exist_ok=True)
            if target.suffix == ".svg":
                shutil.copy(folder / target.name, target)
            else:
                page = folder / f"{target.stem}.html"
                photograph(browser, page, target)
                photograph(browser, page, target.with_stem(f"{target.stem}-dark"), dark=True)
            print(f"{target.stat().st_size / 1e3:6.1f} kB  docs/{name}")
        browser.close()


def photograph(browser: Browser, page: Path, target: Path, *, dark: bool = False) -> None:
    """Writes the top of a page as a PNG of few colours."""
    tab = browser.open(page.as_uri(), width=WIDTH, dark=dark)
    tab.wait("document.readyState == 'complete'")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    shot = base64.b64decode(tab.call("Page.captureScreenshot", format="png", clip=clip)["data"])
    tab.close()
    with Image.open(io.BytesIO(shot)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(target, optimize=True)


if __name__ == "__main__":
    main()
