"""Photographs the explorer for the guide: small models of Python's documentation, their views opened in Chromium.

python docs/explorer_pictures.py [docs/drawings] [--only NAME ...] [--keep FOLDER]

The network is trained for a minute. FOLDER keeps the models, so that only the views are opened the next time.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import chainrule
from chainrule.text.corpus.sample import sample_lines

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import CHROMIUM, Browser, Page  # the tests' own

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTES = 1.0  # that the network is trained for
LARGEST = 100_000  # bytes of a picture
_DONE = (
    "document.querySelector('#controls [name]') && !document.querySelector('#result.is-old') && "
    "document.querySelector('#result').children.length"
)


class Picture(NamedTuple):
    """A view to photograph. height: pixels from the top of the page. act: JavaScript to run before, perhaps none."""

    name: str
    height: int
    state: dict[str, Any]
    width: int = 1100
    dark: bool = False
    act: str = ""


_NEXT = {"view": "next", "model": "ngram", "text": "Return True if the"}
_SURPRISAL = {"view": "surprisal", "model": "ngram", "text": "Return a new list that has eaten the elephants."}
_ATTENTION = {"view": "attention", "model": "transformer", "text": "Return a list of the names in the list."}
PICTURES = (
    Picture("explorer-next", 1000, _NEXT),
    Picture("explorer-next-dark", 1000, _NEXT, dark=True),
    Picture("explorer-surprisal", 850, _SURPRISAL),
    Picture("explorer-surprisal-dark", 850, _SURPRISAL, dark=True),
    Picture("explorer-attention", 1600, _ATTENTION),
    Picture("explorer-attention-dark", 1600, _ATTENTION, dark=True),
    Picture("explorer-lines-dark", 1340, {**_ATTENTION, "as": "lines"}, dark=True),
    Picture("explorer-beams", 1000, {"view": "beams", "model": "transformer", "text": "Return a list of", "length": 4}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "drawings")
    parser.add_argument("--only", nargs="+", choices=[picture.name for picture in PICTURES], metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("there is no Chromium to photograph with: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        models = train_models(given.keep or Path(scratch) / "models")
        with served(models) as address:
            browser = Browser(Path(scratch) / "profile")
            for picture in PICTURES:
                if given.only is None or picture.name in given.only:
                    photograph(browser, address, picture, given.folder)
            browser.close()


def train_models(home: Path) -> dict[str, Path]:
    """The folders of the models, by name, trained unless they are there."""
    lines = chainrule.Lines(sample_lines())
    network = chainrule.TransformerConfig(layers=4, width=96, heads=6, context=64)
    ways: dict[str, dict[str, Any]] = {
        "ngram": {"config": chainrule.NGramConfig(order=5)},
        "transformer": {
            "config": network,
            "tokenizer": chainrule.TokenizerConfig(kind="bpe", vocabulary_size=2000),
            "training": chainrule.TrainingConfig(minutes=MINUTES, compile="no"),
        },
    }
    for name, way in ways.items():
        if not (home / name).exists():
            print(f"training: {name}")
            chainrule.train(lines, **way).save(home / name)
    return {name: home / name for name in ways}


@contextmanager
def served(models: dict[str, Path]) -> Iterator[str]:
    """The address of the explorer of some models."""
    named = [f"{name}={path}" for name, path in models.items()]
    command = [sys.executable, "-m", "chainrule", "explore", *named, "--no-browser", "--port", "0"]
    server = Popen(command, stdout=PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[0]
    finally:
        server.terminate()
        server.wait()


def photograph(browser: Browser, address: str, picture: Picture, folder: Path) -> None:
    """Writes a picture, with two pixels for each of the page's as far as it stays small. Exits if it is too large."""
    page = browser.open(f"{address}#{urlencode(picture.state)}", width=picture.width, dark=picture.dark)
    page.wait(_DONE)
    if picture.act:
        page.evaluate(picture.act)
        page.wait(_DONE)
    page.evaluate("new Promise(done => setTimeout(done, 300))")  # pictures in the page are decoded
    if page.problems:
        sys.exit(f"{picture.name}: {page.problems}")
    content = min((shot(page, picture, scale) for scale in (1.5, 1.0)), key=lambda one: len(one) > LARGEST)
    page.close()
    if len(content) > LARGEST:
        sys.exit(f"{picture.name}: {len(content):,} bytes; expected at most {LARGEST:,}: photograph less of the page")
    (folder / f"{picture.name}.webp").write_bytes(content)
    print(f"{picture.name}.webp: {len(content):,} bytes")


def shot(page: Page, picture: Picture, scale: float) -> bytes:
    height = min(picture.height, int(page.evaluate("document.documentElement.scrollHeight")))
    clip = {"x": 0, "y": 0, "width": picture.width, "height": height, "scale": scale}
    answer = page.call("Page.captureScreenshot", format="webp", quality=80, clip=clip, captureBeyondViewport=True)
    return base64.b64decode(answer["data"])


if __name__ == "__main__":
    main()
