"""What a notebook shows of a text is what the model gives, and text stays text."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path

import pytest

import chainrule

TRAIN = Path(__file__).parents[2] / "fixtures" / "train.txt"
TEXT = "ke di ba"


@pytest.fixture(scope="module")
def model() -> chainrule.CausalModel:
    return chainrule.train(TRAIN, chainrule.NGramConfig(order=3), tokenizer="whitespace")


def test_a_text_and_what_comes_next(model: chainrule.CausalModel, tmp_path: Path) -> None:
    shown = chainrule.show(model, TEXT, top=5)
    drawn = shown._repr_html_()
    bits = -model.score([TEXT])[0] / math.log(2)
    assert float(drawn.partition("bits: ")[2].partition(",")[0]) == pytest.approx(bits, abs=0.006)
    assert re.findall(r"<td>([\d.]+)</td>", drawn) == [f"{prob:.4f}" for _, prob in model.next(TEXT, 5)]
    assert re.sub(r"<[^>]*>", "", drawn.split("<p")[1].split(">", 1)[1].split("</p>")[0]).strip() == "ke di ba ⏎"
    shown.save(tmp_path / "shown.html")
    page = (tmp_path / "shown.html").read_text()
    assert drawn.strip() in page
    assert "<script" not in page
    with pytest.raises(chainrule.OutputError):
        shown.save(tmp_path / "shown.html")
    with pytest.raises(chainrule.SettingError, match="must end in"):
        shown.save(tmp_path / "shown.png")


def test_two_models_and_where_each_is_better(model: chainrule.CausalModel) -> None:
    unigram = chainrule.train(TRAIN, chainrule.NGramConfig(order=1), tokenizer="whitespace")
    drawn = chainrule.show(model, TEXT, other=unigram, by="words")._repr_html_()
    [bits] = re.findall(r"beside it: ([\d.]+), ", drawn.split("</div>")[1])
    assert float(bits) == pytest.approx(-unigram.score([TEXT])[0] / math.log(2), abs=0.006)
    words = re.findall(
        r'<span style="background: #(..)..(..);[^>]*title="[^:]*: ([\d.]+) bits; beside it: ([\d.]+) bits', drawn
    )
    assert len(words) == 4
    for red, blue, own, others in words:  # blue where the one beside it is more surprised, orange where the first is
        assert (int(blue, 16) > int(red, 16)) == (float(own) < float(others))
    assert len({int(blue, 16) > int(red, 16) for red, blue, _, _ in words}) == 2


def test_gaps_sources_and_hostile_texts(model: chainrule.CausalModel) -> None:
    training = chainrule.TrainingConfig(steps=1, compile="no")
    small = {"layers": 1, "width": 16, "heads": 2, "context": 32}
    masked = chainrule.train(TRAIN, chainrule.MaskedConfig(**small), tokenizer="byte", training=training)
    assert "Gap 2" in chainrule.show(masked, "k[MASK] d[MASK]")._repr_html_()
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    pair_model = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16, heads=2), training=training)
    assert "a cat" in re.sub(r"<[^>]*>", "", chainrule.show(pair_model, "a cat", given="eine Katze")._repr_html_())
    hostile = "<img/src=x/onerror=alert(1)> </p><script> \u202e"
    drawn = chainrule.show(model, hostile)._repr_html_()
    assert "<img" not in drawn
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert html.escape("<img/src=x/onerror=alert(1)>") in drawn
    with pytest.raises(TypeError):
        chainrule.show("lm/", TEXT)  # type: ignore[arg-type]
    with pytest.raises(chainrule.SettingError, match="by is 'wrods'; expected one of tokens, words"):
        chainrule.show(model, TEXT, by="wrods")  # type: ignore[arg-type]
    with pytest.raises(chainrule.SettingError, match="text is 3; expected a text"):
        chainrule.show(model, 3)  # type: ignore[arg-type]
