"""Pages of a book: printed as a poor scan would show them, and read again by tesseract."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

import chainrule
from chainrule.evaluation.resampling import interval_of_sums
from chainrule.features.correct.correct import word_index
from chainrule.features.correct.train_channel import wrong_words
from chainrule.features.metrics.error_rates import CharacterErrors

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS, LINES = 60, 34
_MARGIN, _LEADING = 40, 1.45
_SENTENCES = 12  # of a paragraph
_TUNED = 8  # pages
_CONFIG = chainrule.CorrectionConfig(beam=16, candidates=20)
_SYLLABLE = re.compile(r"[aeiouy][bcdfghjklmnpqrstvwxz]*(?=[bcdfghjklmnpqrstvwxz][aeiouy])")


class Scan(NamedTuple):
    """How bad a scan is. size: of letters, in pixels. blur: radius in pixels. noise: standard deviation of a pixel's
    grey, of 255. fade: the share of pixels of ink that are lost. degrees: the page is turned by."""

    size: int = 16
    blur: float = 0.8
    noise: float = 20.0
    fade: float = 0.06
    degrees: float = 0.3


def in_one_shape(text: str) -> str:
    """Quotes and dashes in one shape each: those of a page are all read alike."""
    for marks, plain in (("‘’", "'"), ("“”„", '"'), ("—–", "-")):
        text = re.sub(f"[{marks}]", plain, text)
    return text.replace("--", "-")


def paragraphs_of(sentences: list[str]) -> str:
    """Sentences as pages have them, some to a line: a model must know what follows the end of one."""
    lines = [in_one_shape(joined_tokens(line)) for line in sentences]
    return "".join(" ".join(lines[i : i + _SENTENCES]) + "\n" for i in range(0, len(lines), _SENTENCES))


def joined_tokens(line: str) -> str:
    """Tokens as a book prints them: no space before a comma, quotes beside their words, dashes between them."""
    line, is_open = line.replace("- -", "--"), {"'": False, '"': False}
    words: list[str] = []
    is_glued = False
    for token in line.replace("\ufeff", "").split():
        closes = token in "',.;:!?)" or (token in is_open and is_open[token])
        if token in is_open:
            closes, is_open[token] = is_open[token], not is_open[token]
        if words and (closes or is_glued or token == "-"):
            words[-1] += token
        else:
            words.append(token)
        is_glued = token in ("(", "-") or (token in is_open and is_open[token])
    return re.sub(" ?-- ?", "--", " ".join(words))


def pages_of(sentences: list[str], rng: np.random.Generator) -> Iterator[str]:
    """Pages of lines of running text. Of the words that reach beyond a line, half are cut by a hyphen."""
    lines, line = [], ""
    for word in " ".join(map(joined_tokens, sentences)).split():
        if len(line) + 1 + len(word) <= COLUMNS:
            line = f"{line} {word}".lstrip()
            continue
        room = COLUMNS - len(line) - 2
        cuts = [m.end() for m in _SYLLABLE.finditer(word) if m.end() <= room and len(word) - m.end() > 2]
        if cuts and word.isalpha() and cuts[-1] > 1 and rng.random() < 0.5:
            lines.append(f"{line} {word[: cuts[-1]]}-")
            line = word[cuts[-1] :]
        else:
            lines.append(line)
            line = word
        if len(lines) == LINES:
            yield "\n".join(lines)
            lines = []


def printed(page: str, font: Path, scan: Scan, rng: np.random.Generator) -> Image.Image:
    """A picture of a page, in grey."""
    letters = ImageFont.truetype(str(font), scan.size)
    height = int(scan.size * _LEADING)
    lines = page.split("\n")
    width = int(max(letters.getlength(line) for line in lines))
    picture = Image.new("L", (width + 2 * _MARGIN, height * len(lines) + 2 * _MARGIN), 235)
    drawing = ImageDraw.Draw(picture)
    for i, line in enumerate(lines):
        drawing.text((_MARGIN, _MARGIN + i * height), line, fill=30, font=letters)
    picture = picture.rotate(scan.degrees * rng.uniform(-1, 1), Image.Resampling.BILINEAR, fillcolor=235)
    grey = np.asarray(picture).astype(np.float64)
    grey = np.where((grey < 160) & (rng.random(grey.shape) < scan.fade), 235, grey)
    blurred = Image.fromarray(grey.astype(np.uint8)).filter(ImageFilter.GaussianBlur(scan.blur))
    noisy = np.asarray(blurred) + rng.normal(0, scan.noise, grey.shape)
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def read_picture(picture: Image.Image) -> str:
    """What tesseract reads on a picture of a page, without empty lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.png")
        picture.save(path, dpi=(100, 100))
        command = ["tesseract", str(path), "-", "--psm", "6", "-l", "eng"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def write_pages(sentences: list[str], output: Path, font: Path, scan: Scan, pages: int, seed: int) -> None:
    """Records of what was read and of what is right, a page each. sentences: of tokens."""
    rng = np.random.default_rng(seed)
    with output.open("w", encoding="utf-8") as file:
        for _, page in zip(range(pages), pages_of(sentences, rng), strict=False):
            record = {"read": read_picture(printed(page, font, scan, rng)), "right": page}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()


def measure_ocr(model: Path, test: Path, train: Path) -> None:
    """Character errors before and after, of pages, with a channel learned on other pages."""
    (read, right), (others, meant) = (_sides(path) for path in (test, train))
    pairs = list(zip(others, meant, strict=True))
    channel = chainrule.train_channel(pairs, prior="ocr")
    wrong = sum(len(wrong_words(*pair)) for pair in pairs)
    rate = wrong / sum(len(page.split()) for page in meant)
    lm = chainrule.load(model)
    print(f"{len(read)} pages, {sum(map(len, right)):,} characters; channel from {len(pairs)} others, rate {rate:.3f}")
    words = word_index(lm)
    correctors = {
        "the channel ocr": chainrule.corrector(lm, "ocr", lexicon=words, config=_CONFIG),
        "learned without a prior": chainrule.corrector(
            lm, chainrule.train_channel(pairs), rate=rate, lexicon=words, config=_CONFIG
        ),
        "learned, prior ocr": chainrule.corrector(lm, channel, rate=rate, lexicon=words, config=_CONFIG),
    }
    of_rest = chainrule.train_channel(pairs[_TUNED:], prior="ocr")
    options: dict[str, Any] = {"maximise": "accuracy", "channel": of_rest, "rate": rate, "config": _CONFIG}
    tuned = chainrule.tune_correction(others[:_TUNED], meant[:_TUNED], lm, **options)
    correctors["learned and tuned on other pages"] = chainrule.corrector(
        lm, channel, settings=tuned.settings, config=_CONFIG
    )
    measure = CharacterErrors()
    before = measure.statistics(read, right)
    print(f"{'as read':34} {_percent(before)}")
    for name, corrector in correctors.items():
        began = time.perf_counter()
        after = measure.statistics([one.corrected for one in corrector.correct(read)], right)
        seconds = time.perf_counter() - began
        left = after[:, 0].sum() / before[:, 0].sum()
        low, high = interval_of_sums([before, after], lambda a, b: b[..., 0] / a[..., 0])
        words = sum(len(page.split()) for page in read)
        print(f"{name:34} {_percent(after)}, {left:.3f} of the errors left ({low:.3f} to {high:.3f})", end="")
        print(f"; {words / seconds:,.0f} words/s", flush=True)


def _sides(path: Path) -> tuple[list[str], list[str]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [in_one_shape(row["read"]) for row in rows], [in_one_shape(row["right"]) for row in rows]


def _percent(statistics: np.ndarray) -> str:
    rate = CharacterErrors().value
    low, high = interval_of_sums([statistics], rate)
    return f"{rate(statistics.sum(0).astype(float)):.2%} ({low:.2%} to {high:.2%})"
