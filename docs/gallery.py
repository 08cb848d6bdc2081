"""Runs the commands of the gallery in an empty folder, and writes its pictures: make pictures.

A picture gallery/x.svg is what a command wrote as x.svg, gallery/x.png what Chromium shows of the page x.html.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lectures import commands_of, run
from PIL import Image

PAGE = Path(__file__).with_name("gallery.md")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 900, 620


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("there is no Chromium, which pictures of pages need; install one: apt install chromium")
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for command in commands_of(text):
            run(command, folder)
        for name in re.findall(r"\]\((gallery/[^)]+)\)", text):
            target = PAGE.parent / name
            target.parent.mkdir(exist_ok=True)
            if target.suffix == ".svg":
                shutil.copy(folder / target.name, target)
            else:
                photograph(browser, folder / f"{target.stem}.html", target)
            print(f"{target.stat().st_size / 1e3:6.1f} kB  docs/{name}")


def photograph(browser: str, page: Path, target: Path) -> None:
    """Writes the top of a page as a PNG of few colours."""
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars --no-first-run"
    own = [f"--user-data-dir={page.parent / 'profile'}", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target}"]
    subprocess.run([browser, *flags.split(), *own, page.as_uri()], check=True, capture_output=True)
    with Image.open(target) as picture:
        picture.convert("RGB").quantize(64).save(target, optimize=True)


if __name__ == "__main__":
    main()
