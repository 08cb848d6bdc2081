"""BLEU against sacreBLEU's own corpus score."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import SettingError
from chainrule.features.metrics import bleu
from chainrule.features.metrics.bleu import Bleu

TEXTS = st.lists(st.sampled_from(["the", "cat", "sat", ",", "on", "3.14", "mat."]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_sums_of_statistics_give_the_score_of_the_corpus(pairs: list[tuple[str, str]]) -> None:
    texts, references = map(list, zip(*pairs, strict=True))
    measure = Bleu()
    sums = measure.statistics(texts, references).sum(axis=0)
    expected = sacrebleu.corpus_bleu(texts, [references]).score
    assert measure.value(sums) == pytest.approx(expected, abs=1e-9)
    assert measure.value(np.stack([sums, sums])).tolist() == pytest.approx([expected, expected], abs=1e-9)


def test_the_signature_is_that_of_sacrebleu() -> None:
    assert Bleu().signature == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" + sacrebleu.__version__


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bleu, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"pip install 'chainrule\[bleu\]'"):
        Bleu()
