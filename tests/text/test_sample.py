"""The built-in sample text on the Python that runs the tests."""

import json
import sys
from pathlib import Path

import pytest

from chainrule.errors import TextError
from chainrule.text.corpus import sample
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_docstrings, sample_lines
from chainrule.text.tokenization.tokenizer import Tokenizer


def without_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)  # which makes its import fail


def library_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample.sysconfig, "get_path", lambda name: str(folder))


def test_the_sample_is_large_enough_to_train_on_and_free_of_markers() -> None:
    """And its docstrings know the package that they are from."""
    progress: list[float] = []  # shares
    lines = sample_lines(lambda task, done, total: progress.append(done / (total or 1)))
    assert sum(len(line.split()) for line in lines) > 250_000
    assert 1_500_000 < sum(map(len, lines)) < 8_000_000
    assert all(line.strip() for line in lines)
    assert len(progress) > 100
    assert progress[-1] == 1
    tokenizer = Tokenizer.untrained("word", "error")
    for block in Lines(lines).blocks():
        tokenizer.encode(block.text, grow=True)
    assert tokenizer.vocabulary_size > 10_000
    assert {"function", "Unicode", "isn't"} <= {token.decode() for token in tokenizer.vocabulary.tokens()}
    docstrings = sample_docstrings()
    docstring = json.dumps.__doc__
    assert docstring is not None
    first = docstring.strip().splitlines()[0]
    assert first in [text.splitlines()[0] for package, text in docstrings if package == "json"]
    for _, text in docstrings[:50]:
        assert {" ".join(line.split()) for line in text.splitlines() if line.strip()} <= {*lines}


def test_docstrings_come_from_the_library_and_not_from_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_topics(monkeypatch)
    library = tmp_path / "tests" / "lib"  # the name of a folder above the library does not matter
    for name in ("json/test/x.py", "json/tests/x.py", "test/x.py", "notalibrary.py", "json/a.py", "ast.py"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(
            f'"""At the top of  {name}.\n\n  More."""\ndef f():\n    "Of f."\n    "none"\nclass C:\n    pass\n'
        )
    (library / "json/broken.py").write_bytes(b'"""Never closed')
    (library / "json/binary.py").write_bytes(b'"""A\0"""')
    library_at(library, monkeypatch)
    expected = [["At the top of ast.py.", "More.", "Of f."], ["At the top of json/a.py.", "More.", "Of f."]]
    assert sample_lines() == expected[0] + expected[1]


def test_a_python_without_its_documentation_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_topics(monkeypatch)
    library_at(tmp_path, monkeypatch)
    with pytest.raises(TextError, match="was installed without its documentation"):
        sample_lines()
