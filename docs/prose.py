"""Words a sentence, page by page, and the private words on each: make prose.

A page is too long-winded above an average of 20 words a sentence (18 are wanted); `make docs` warns of those.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 20
# What a reader of the field does not know, or reads twice; with what to write instead.
PRIVATE = {
    r"\btold\b": "says, reports, passed",
    r"\bby heart\b": "memorised",
    r"\bthe givens?\b(?! \w)": "the source, the condition",
    r"\bas (it is|they are)\b(?=[.,;:)]|$)": "unchanged",
    r"(?<!of )\b[Pp]ieces\b": "tokens",
    r"\b(here|there) stands\b|\bstands? (here|there)\b": "is",
    r"\b[Ss]igns of\b": "characters",
    r"\bof texts\b": "in texts",
    r"\bhas its own\b|\bof its own\b|\bof their own\b": "separate, an own",
}


def prose_of(text: str) -> list[str]:
    """Return the paragraphs and list items of a page in Markdown: no code, tables, headings, targets of links."""
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^( *)```.*?^\1```\s*$", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", " ", text, flags=re.DOTALL)
    text = re.sub(r"^(?:\||#|!\[|:::|!!!).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]+`", "code", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n", text, flags=re.MULTILINE)
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def sentences_of(text: str) -> list[int]:
    """Return the number of words of each sentence of a page."""
    text = (
        "\n".join(prose_of(text))
        .replace("**", "")
        .replace("e.g.", "eg")
        .replace("i.e.", "ie")
        .replace("et al.", "et al")
    )
    sentences = re.split(r"(?<=[.!?:])[\"”)]*\s+(?=[\"“(]?[A-Z0-9c])|\n", text)
    counts = [len(re.findall(r"\S*\w\S*", sentence)) for sentence in sentences]
    return [count for count in counts if count >= 3]


def private_words(text: str) -> list[str]:
    """Return the private words on a page, each with what to write instead."""
    prose = "\n".join(prose_of(text))
    return [f"{match[0]} ({better})" for private, better in PRIVATE.items() for match in re.finditer(private, prose)]


def pages() -> list[Path]:
    """Return README and the pages of the guide and of the decisions, without what is kept from the past."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/decisions").glob("*.md"))]


def warnings() -> list[str]:
    """Return a line for each page whose sentences are too long or that has private words."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        counts, name = sentences_of(text), page.relative_to(ROOT).as_posix()
        if page.name != "changes.md" and counts and sum(counts) / len(counts) > LIMIT:
            found.append(f"{name}: {sum(counts) / len(counts):.1f} words a sentence; at most {LIMIT}, better 18")
        if page.name != "changes.md" and (private := private_words(text)):
            found.append(f"{name}: {', '.join(private)}")
    return found


def main() -> None:
    """Print words, words a sentence and private words of the pages that are named, or of all."""
    chosen = [Path(name) for name in sys.argv[1:]] or pages()
    total = 0
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        counts = sentences_of(text)
        total += len(text.split())
        mean = sum(counts) / len(counts) if counts else 0.0
        print(f"{len(text.split()):6} words  {mean:5.1f} a sentence  {page.name}  {'; '.join(private_words(text))}")
    print(f"{total:6} words")


if __name__ == "__main__":
    main()
