"""A model has the verbs of its kind, for a type checker, for an editor and when it runs."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from random_networks import MODERN, random_model

import chainrule
from chainrule.errors import WrongModelError
from chainrule.kinds import Table, kinds, rows
from chainrule.models.any_model import check_kind
from chainrule.models.files.folders import build_model

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    "ngram": chainrule.CausalModel,
    "mixture": chainrule.CausalModel,
    "transformer": chainrule.CausalNetwork,
    "masked": chainrule.MaskedModel,
    "two-sided": chainrule.MaskedModel,
    "text-encoder": chainrule.EmbeddingModel,
    "classifier": chainrule.ClassifierModel,
}
VERBS = {  # public name: the families whose models have it
    "generate": {"ngram", "mixture", "transformer"},
    "perplexity": {"ngram", "mixture", "transformer"},
    "score": {"ngram", "mixture", "transformer", "masked", "two-sided"},
    "choose": {"ngram", "mixture", "transformer", "masked", "two-sided"},
    "fill": {"masked", "two-sided"},
    "embed": {"transformer", "masked", "two-sided", "text-encoder", "classifier"},
    "classify": {"classifier"},
    "save": set(KINDS),
}


@pytest.fixture(scope="module")
def ngram() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(["a text", "another text"]))


@pytest.mark.parametrize("family", KINDS)
def test_a_family_has_the_verbs_of_its_kind(family: str) -> None:
    kind = kinds()[family].model.get()
    assert kind is KINDS[family]
    assert {verb for verb in VERBS if hasattr(kind, verb)} == {verb for verb, have in VERBS.items() if family in have}


def test_every_family_has_a_kind() -> None:
    assert all(issubclass(kind.model.get(), chainrule.AnyModel) for kind in kinds().values())


def test_a_model_has_no_verbs_of_other_kinds_and_where_a_kind_is_needed_one_line_says_so(
    ngram: chainrule.CausalModel,
) -> None:
    for name in ("fill", "embed", "classify", "generat"):
        with pytest.raises(AttributeError, match=f"'CausalModel' object has no attribute '{name}'"):
            getattr(ngram, name)
        assert name not in dir(ngram)
    with pytest.raises(chainrule.SettingError) as raised:
        check_kind(ngram, chainrule.MaskedModel)
    assert str(raised.value) == "a model of family 'ngram' continues texts; this takes one that fills gaps in texts"


def test_an_error_inside_a_property_stays_what_it_is(ngram: chainrule.CausalModel) -> None:
    broken = copy.copy(ngram)
    broken._tokenizer = None
    broken._speller = None
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute"):
        _ = broken.speller


def test_a_model_can_be_copied_and_pickled(ngram: chainrule.CausalModel) -> None:
    for same in (copy.copy(ngram), copy.deepcopy(ngram), pickle.loads(pickle.dumps(ngram))):
        assert type(same) is chainrule.CausalModel
        assert same.score(["a text"]) == ngram.score(["a text"])


def test_load_checks_the_kind_that_is_named(ngram: chainrule.CausalModel, tmp_path: Path) -> None:
    ngram.save(tmp_path / "lm")
    for kind in (None, chainrule.Model, chainrule.CausalModel):
        assert type(chainrule.load(tmp_path / "lm", kind)) is chainrule.CausalModel
    with pytest.raises(WrongModelError, match=r"lm: a model of family 'ngram' continues .* one that labels texts"):
        chainrule.load(tmp_path / "lm", chainrule.ClassifierModel)
    with pytest.raises(chainrule.SettingError, match="expected a class of models"):
        chainrule.load(tmp_path / "lm", int)


def test_compacting_keeps_the_kind() -> None:
    tokenizer = chainrule.train(chainrule.Lines(["a text", "another text"])).tokenizer
    network = build_model("transformer", random_model(MODERN, tokenizer.vocabulary_size), tokenizer)
    assert type(check_kind(network, chainrule.EmbeddingModel).compact()) is chainrule.CausalNetwork


def test_what_cannot_be_mixed_at_all_is_said_before_vocabularies_that_differ(ngram: chainrule.CausalModel) -> None:
    examples = [chainrule.Labelled(text, (text,)) for text in ("x", "y")]
    training = chainrule.ClassifierTrainingConfig(epochs=1, valid_share=0.0)
    labels: Any = chainrule.train_classifier(examples, "bag", training=training, progress=False)
    with pytest.raises(WrongModelError, match=r"^model 2: a model of family 'classifier' labels texts; this takes one"):
        chainrule.mix([ngram, labels])


def test_a_table_has_its_own_rows_and_those_of_the_registry_imported_when_used() -> None:
    table: Table[Any] = Table("classify.networks", {"own": int})
    assert list(table) == ["own", *rows("classify.networks")]
    assert len(table) == len(list(table))
    assert table["own"] is int
    assert (table["tree"].__name__, table.get("tree") is table["tree"]) == ("TreeLabelling", True)
    assert "tree" in table
    assert "other" not in table
    assert table.get("other") is None
    with pytest.raises(KeyError):
        table["other"]
