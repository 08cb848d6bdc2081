"""What is corrected in plain text, Markdown, LaTeX, HTML and programs; the form of words that a text keeps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import chainrule
from chainrule.errors import SettingError
from chainrule.features.correct.corrector.formats import format_of, read_as
from chainrule.features.correct.corrector.spans import chunks_of

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.correct.corrector.corrector import Corrector

SENTENCES = [
    "I received the letter from my friend",
    "the dog isn't in the caf\u00e9 and couldn't be here",
    "the function is a value and I return a value , the result",
    "a long walk is a running joke of my friend",
    "the document is in the letter",
]


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(chainrule.Lines(SENTENCES * 5), chainrule.NGramConfig(order=3))


@pytest.fixture(scope="module")
def corrector(lm: chainrule.Model) -> Corrector:
    return chainrule.corrector(lm, rate=0.2)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(
            (f"the dog isn{mark}t here and coudln{mark}t be", f"the dog isn{mark}t here and couldn{mark}t be")
            for mark in "'\u00b4`\u2018\u2019\u2032\u201b\uff07"
        ),
        ("teh dog is in the cafe\u0301", "the dog is in the cafe\u0301"),
        ("the dog is in the caffe\u0301", "the dog is in the cafe\u0301"),  # decomposed, as it was
        ("teh func\u00adtion is", "the func\u00adtion is"),
        ("the docu\u00adment is in teh\u200b letter", "the docu\u00adment is in the letter"),
        ("the funtion's result", "the function's result"),
        ("a long-runing joke", "a long-running joke"),
        ("the _documment_ is *teh* letter", "the _document_ is *the* letter"),
        ("the \\emph{leter} from <b>teh</b> friend", "the \\emph{letter} from <b>the</b> friend"),
        ("the __init__ </s> _x_y teh_letter", "the __init__ </s> _x_y teh_letter"),
        ("i retrun a value", "I return a value"),
        ("i return i.e. a value", "I return i.e. a value"),
    ],
)
def test_words_are_found_in_any_form_and_keep_theirs(corrector: Corrector, given: str, meant: str) -> None:
    [one] = corrector.correct([given])
    assert one.corrected == meant
    assert one.with_changes(one.changes) == meant
    assert all(given[change.start : change.stop] == change.before for change in one.changes)


def test_i_before_a_clitic_is_the_pronoun() -> None:
    lm = chainrule.train(
        chainrule.Lines(["I'll go and I'm sure", "he said that I go"] * 5), chainrule.NGramConfig(order=3)
    )
    [line] = chainrule.corrector(lm, rate=0.1).correct(["he said that i'll go"])
    assert line.corrected == "he said that I'll go"


def test_small_i_stays_in_texts_without_capitals(lm: chainrule.Model) -> None:
    texts = ["i retrun a value to my friend"] * 10
    assert {one.corrected for one in chainrule.correct(chainrule.Lines(texts), lm)} == {"i return a value to my friend"}
    cased = [*texts, "The dog is there"]
    assert next(chainrule.correct(chainrule.Lines(cased), lm)).corrected == "I return a value to my friend"


def test_a_rare_name_costs_more_in_the_place_of_a_new_one(lm: chainrule.Model) -> None:
    def log_prob_of_molinda(prior: float) -> float:
        lexicon = {"the": 1.0, "letter": 1.0, "Molinda": math.exp(prior) * 2 / (1 - math.exp(prior))}
        ready = chainrule.corrector(lm, rate=0.2, lexicon=lexicon)
        [[_, name]] = ready._spelling.propose([text := "the Milinda"], [chunks_of(text)])
        return next(one.log_prob for one in name if one.text == "Molinda")

    frequent = log_prob_of_molinda(-11.0)
    for prior, cost in ((-12.5, 1.5), (-13.0, 3.0), (-14.0, 6.0), (-17.0, 6.0)):  # 3 nats for each below -12, at most 6
        assert log_prob_of_molinda(prior) == pytest.approx(frequent - cost, abs=1e-6)


def test_a_lexicon_in_another_form_is_the_same(lm: chainrule.Model) -> None:
    words = dict.fromkeys(" ".join(SENTENCES).replace("'", "\u2019").replace("\u00e9", "e\u0301").split(), 5)
    ready = chainrule.corrector(lm, rate=0.2, lexicon=words)
    [one] = ready.correct(["teh dog isn't in the caf\u00e9 and coudln't be"])
    assert one.corrected == "the dog isn't in the caf\u00e9 and couldn't be"


MARKDOWN = """---
title: teh
---
# Teh letter

See [teh letter](http://a.b/teh "teh") and `teh` &amp; **teh** dog, $teh$ \\*
<http://a.b/teh> from my freind.

> from teh
> dog ![teh](teh.png)

| teh | dog |
|-----|-----|
| teh | `teh` |

```py
teh
```

    teh

<p class="teh">teh <code>teh</code></p>

[teh]: http://a.b/teh
"""
LATEX = r"""\documentclass{teh}
\section{Teh letter} \emph{teh} \cite[teh]{teh} \label{teh} \foo{teh} $teh$ \(teh\) % teh
\begin{equation} teh \end{equation} \verb|teh| \href{teh}{teh letter} the caf\'e and 10\% of teh letter
\begin{verbatim} teh { \end{verbatim} teh
"""
HTML = """<html><head><title>Teh letter</title><style>teh</style></head><body class="teh"><!-- teh -->
<p>teh <b>leter</b> &amp; <code>teh</code> from my freind.<pre>teh</pre><script>teh</script></body></html>
"""
PYTHON = '''#!/usr/bin/env teh
# teh letter from
# my freind: recieve
def recieve(teh_dog):
    """Return teh letter."""
    print(f"teh letter {teh_dog} is %s", "teh", x["teh"])
'''


@pytest.mark.parametrize(
    ("text", "kind", "name", "expected"),
    [
        (
            MARKDOWN,
            "markdown",
            "",
            MARKDOWN.replace("# Teh", "# The")
            .replace("[teh letter]", "[the letter]")
            .replace("**teh**", "**the**")
            .replace("freind", "friend")
            .replace("from teh", "from the")
            .replace("![teh]", "![the]")
            .replace("| teh |", "| the |")
            .replace('"teh">teh', '"teh">the'),
        ),
        (
            LATEX,
            "latex",
            "",
            LATEX.replace("{Teh letter", "{The letter")
            .replace("emph{teh", "emph{the")
            .replace("{teh letter", "{the letter")
            .replace("of teh", "of the")
            .replace("} teh\n", "} the\n"),
        ),
        (
            HTML,
            "html",
            "",
            HTML.replace("<title>Teh", "<title>The")
            .replace("<p>teh", "<p>the")
            .replace("leter", "letter")
            .replace("freind", "friend"),
        ),
        (
            PYTHON,
            "code",
            "a.py",
            PYTHON.replace("# teh", "# the")
            .replace("freind", "friend")
            .replace("Return teh", "Return the")
            .replace('f"teh', 'f"the'),
        ),
    ],
)
def test_prose_alone_is_corrected(lm: chainrule.Model, text: str, kind: str, name: str, expected: str) -> None:
    [one] = chainrule.corrector(lm, rate=0.2, format=kind).correct([text], [name])
    assert one.corrected == expected


@pytest.mark.parametrize("kind", ["text", "markdown", "latex", "html"])
@pytest.mark.parametrize(
    "text", ["", "\n\n", "*_<\\{$`[", "<", "\\", "a\\", "$$ {[", "<p", "&amp", "```", "\x00", "a\r\nb"]
)
def test_damaged_markup_is_read(kind: str, text: str) -> None:
    reading = read_as(text, kind)  # type: ignore[arg-type]
    assert len(reading.text) == len(reading.starts) == len(reading.stops)


def test_the_suffix_names_the_format() -> None:
    names = ["a.md", "a.MD.gz", "a.tex", "a.html", "a.py", "a.txt", "a", "-", "a.jsonl"]
    kinds = ["markdown", "markdown", "latex", "html", "code", "text", "text", "text", "text"]
    assert [format_of(name) for name in names] == kinds
    assert format_of("a.md", "text") == "text"
    with pytest.raises(SettingError, match=r"such as \.py"):
        read_as("teh", "code")


def test_a_file_is_read_by_its_suffix(lm: chainrule.Model, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Teh letter\n\n```\nteh\n\nteh\n```\n")
    [one] = chainrule.correct(str(tmp_path / "a.md"), lm, rate=0.2)
    assert one.corrected == "The letter\n\n```\nteh\n\nteh\n```"
    as_text = [line.corrected for line in chainrule.correct(str(tmp_path / "a.md"), lm, rate=0.2, format="text")]
    assert as_text == ["The letter", "", "```", "the", "", "the", "```"]
