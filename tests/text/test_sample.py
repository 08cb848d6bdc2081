"""The sample text that comes with the package."""

import hashlib
import inspect
import textwrap

from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_docstrings, sample_lines
from chainrule.text.tokenization.tokenizer import Tokenizer

DIGEST = "fe08ee41876f4d6fdab5d43fe10efeaa35da72ecfc3c897df3e6c26df3e550d4"


def test_the_sample_is_the_same_under_every_python() -> None:
    """It was what the installed Python had; trigrams had a perplexity of 78 on one machine and of 68 on another."""
    lines = sample_lines()
    assert len(lines) == 41_953
    assert sum(map(len, lines)) == 1_973_500
    text = "\n".join(lines).encode()
    assert hashlib.sha256(text).hexdigest() == DIGEST


def test_the_sample_is_large_enough_to_train_on_and_free_of_markers() -> None:
    lines = sample_lines()
    assert sum(len(line.split()) for line in lines) > 250_000
    assert all(line.strip() == line != "" for line in lines)
    tokenizer = Tokenizer.untrained("word", "error")
    for block in Lines(lines).blocks():
        tokenizer.encode(block.text, grow=True)
    assert tokenizer.vocabulary_size > 10_000
    assert {"function", "Unicode", "isn't"} <= {token.decode() for token in tokenizer.vocabulary.tokens()}


def test_docstrings_know_the_package_that_they_are_from() -> None:
    """A docstring of the standard library that no version of Python has changed for long is one of them."""
    docstring = inspect.getdoc(textwrap.TextWrapper.fill)
    assert docstring is not None
    first = docstring.splitlines()[0]
    docstrings = sample_docstrings()
    assert first in [text.splitlines()[0] for package, text in docstrings if package == "textwrap"]
    lines = {*sample_lines()}
    for _, text in docstrings[:50]:
        assert {" ".join(line.split()) for line in text.splitlines() if line.strip()} <= lines
