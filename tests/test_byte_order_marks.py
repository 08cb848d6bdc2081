"""Small files of every kind say the same with a byte order mark, as programs on Windows write it, as without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import chainrule
from chainrule.base.progress import silent
from chainrule.cli.shared.server_options import key_in
from chainrule.decoding.config import read_grammar, read_schema
from chainrule.features.chat.shell_chat import _text_of
from chainrule.features.exports.word_list import _read_shortcuts
from chainrule.features.kenlm import lmplz
from chainrule.features.reading.word_frequencies import WordFrequencies
from chainrule.features.rescore.lattice_formats import read_symbols
from chainrule.features.speech.search.logits import read_labels
from chainrule.features.speech.search.word_models import load_unigram_set_from_arpa
from chainrule.features.vectors.learning.cooccurrences import read_cooccurrence_file
from chainrule.features.vectors.learning.intrinsic import read_analogies, read_sets
from chainrule.ngram.counting.files import read_counts
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.text.word_lists import read_words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = b"\xef\xbb\xbf"


def vectors(path: Path) -> Any:
    read = chainrule.load_vectors(path)
    return list(read.words), read.vectors.tolist()


def words_of_counts(path: Path) -> Any:
    counts, vocabulary, _ = read_counts([str(path)], 2, silent, Vocabulary(()))
    return vocabulary.tokens(), counts.counts.tolist()


READERS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "labels, a line each": ("labels.txt", "<pad>\n|\na\n", read_labels),
    "labels as a list": ("labels.json", '["<pad>", "|", "a"]', read_labels),
    "labels and columns": ("vocab.json", '{"<pad>": 0, "a": 1}', read_labels),
    "counts": ("counts.txt", "ka\t5\nvi\t5\nka vi\t3\nvi ka\t2\n", words_of_counts),
    "GloVe": ("v.txt", "ka 1 2\nvi 3 4\n", vectors),
    "word2vec": ("v.vec", "2 2\nka 1 2\nvi 3 4\n", vectors),
    "grammar": ("g.lark", 'start: "a"\n', read_grammar),
    "schema": ("s.json", '{"type": "object"}', read_schema),
    "template": ("t.jinja", "{{ messages }}", _text_of),
    "key": ("key", "secret\n", key_in),
    "words": ("w.txt", "ka\nvi\n", read_words),
    "vocabulary of lmplz": ("w.txt", "ka vi\n", lmplz._read),
    "co-occurrences": ("c.tsv", "ka vi 2\nvi ka 2\n", lambda path: read_cooccurrence_file(path).words),
    "shortcuts": ("s.tsv", "brb\tbe right back\n", _read_shortcuts),
    "frequencies": ("f.tsv", "ka\t3\nvi\t1\n", lambda path: WordFrequencies(path).log_frequencies(["ka", "vi"])),
    "ratings": ("r.tsv", "ka\tvi\t3\n", lambda path: list(read_sets(path).values())),
    "analogies": ("a.txt", ": family\nking man queen woman\n", read_analogies),
    "symbols": ("symbols.txt", "<eps> 0\nka 1\n", lambda path: read_symbols(str(path))),
    "unigrams": (
        "lm.arpa",
        "\\data\\\nngram 1=2\n\n\\1-grams:\n-1\tka\t-0.5\n-1\tvi\t-0.5\n\n\\end\\\n",
        lambda path: load_unigram_set_from_arpa(str(path)),
    ),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_mark_changes_nothing(kind: str, tmp_path: Path) -> None:
    name, content, read = READERS[kind]
    results = []
    for folder, mark in (("without", b""), ("with", MARK)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(mark + content.encode())
        results.append(read(tmp_path / folder / name))
    assert results[0] == results[1]
    assert "\ufeff" not in str(results[1])
