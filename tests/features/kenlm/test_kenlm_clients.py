"""Libraries that import kenlm, run unchanged with the drop-in module."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING

import pytest
from heard import LABELS, heard
from oracles import parsed_arpa

import chainrule
from chainrule import kenlm

if TYPE_CHECKING:
    from pathlib import Path


def test_pyctcdecode_finds_the_texts_and_scores_that_it_finds_with_kenlm(
    fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", kenlm)  # what install() does, undone after this test
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyctcdecode"]:
        monkeypatch.delitem(sys.modules, name)  # another test has imported it without kenlm
    from pyctcdecode import build_ctcdecoder

    trained = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer="whitespace")
    trained.save(tmp_path / "trained.arpa")
    assert parsed_arpa(gzipped(tmp_path / "trained.arpa")).keys() == parsed_arpa(fixtures / "order3.arpa.gz").keys()
    decoder = build_ctcdecoder(LABELS, str(tmp_path / "trained.arpa"), alpha=0.7, beta=0.5)
    lines = [line.split("\t") for line in (fixtures / "kenlm/decoded.tsv").read_text().splitlines()]
    actual = []
    for seed, sentence in enumerate((fixtures / "heldout.txt").read_text().splitlines()[:40:5]):
        beams = decoder.decode_beams(heard(sentence, seed), beam_width=20)[:3]
        actual += [(seed, text, logit_score, lm_score) for text, _, _, logit_score, lm_score in beams]
    assert len({text for _, text, _, _ in actual}) > 15
    assert [(seed, text) for seed, text, _, _ in actual] == [(int(seed), text) for seed, text, _, _ in lines]
    for ours, theirs in zip(actual, lines, strict=True):
        assert ours[2:] == pytest.approx([float(number) for number in theirs[2:]], rel=1e-5)


def gzipped(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed
