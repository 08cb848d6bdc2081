"""A model cut into shards is the same model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracles import END, random_documents, stream_of

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.serve.shards import open_shards
from chainrule.ngram.models.sharded_model import ShardedModel
from chainrule.ngram.saving import shard_model

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = random_documents(3, 60, 200, 20)
LINES = chainrule.Lines([" ".join(f"w{word}" for word in document) for document in DOCUMENTS])


@pytest.fixture(scope="module", params=[(5, ()), (3, (0, 1)), (1, ()), (2, ())], ids=str)
def model(request) -> chainrule.CausalModel:
    order, prune = request.param
    config = chainrule.NGramConfig(order=order, prune=prune or (0,))
    return chainrule.train(LINES, config, tokenizer="whitespace")


@pytest.mark.parametrize("shards", [1, 2, 7, 1000])
def test_all_that_a_model_says_is_the_same_in_shards(model, shards: int) -> None:
    whole = model.language_model
    cut = shard_model(whole, shards, silent)
    assert cut.level_sizes == whole.level_sizes
    assert len(cut.shards) <= min(shards, whole.vocabulary_size)
    chance = np.random.default_rng(5)
    stream = stream_of([chance.integers(3, whole.vocabulary_size, 9).tolist() for _ in range(30)] + DOCUMENTS[:50])
    stream = np.where(stream < whole.vocabulary_size, stream, 0).astype(np.int32)
    for actual, expected in zip(cut.score_stream_in_full(stream), whole.score_stream_in_full(stream), strict=True):
        assert np.array_equal(actual, expected)
    prefixes = np.split(stream, np.flatnonzero(stream == END)[:80] - 1)
    ours, theirs = cut.start(prefixes), whole.start(prefixes)
    assert np.array_equal(cut.next_log_probs(ours), whole.next_log_probs(theirs))
    for actual, expected in zip(cut.top(ours, 7), whole.top(theirs, 7), strict=True):
        assert np.array_equal(actual, expected)
    uniforms = chance.random(len(prefixes))
    for actual, expected in zip(cut.draw(ours, uniforms), whole.draw(theirs, uniforms), strict=True):
        assert np.array_equal(actual, expected)


def test_shards_have_about_as_many_ngrams_each() -> None:
    model = chainrule.train(LINES, chainrule.NGramConfig(order=3), tokenizer="whitespace").language_model
    sizes = [sum(shard.level_sizes[1:]) for shard in shard_model(model, 3, silent).shards]
    assert sum(sizes) == sum(model.level_sizes[1:])
    assert max(sizes) < 0.6 * sum(sizes)


@pytest.fixture
def folder(tmp_path) -> Path:
    model = chainrule.train(LINES, chainrule.NGramConfig(order=3), tokenizer="whitespace")
    model.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "big", shards=3)
    return tmp_path / "big"


def scores(model: chainrule.CausalModel) -> list[float]:
    return np.concatenate(model.language_model.score([np.array([3, 4, 5]), np.array([9, 7])])).tolist()


def test_a_folder_of_shards_opens_as_any_model(folder) -> None:
    whole, cut = chainrule.load(folder.parent / "lm"), chainrule.load(folder)
    assert isinstance(cut.language_model, ShardedModel)
    assert len(list(folder.glob("shard-0000?-*.safetensors"))) == 3
    assert scores(cut) == scores(whole)
    assert cut.perplexity(LINES) == whole.perplexity(LINES)
    chainrule.verify(folder)
    cut.save(folder.parent / "again")
    assert {path.name for path in folder.glob("*.safetensors")} == {
        path.name for path in (folder.parent / "again").glob("*.safetensors")
    }


def test_a_lost_shard_is_named(folder) -> None:
    lost = next(folder.glob("shard-00001-*"))
    lost.unlink()
    with pytest.raises(ModelFormatError, match=rf"{lost.name}: cannot be opened: No such file"):
        chainrule.load(folder)
    edges, tables, _ = open_shards(folder, (0, 2))  # those that are there can still be served
    assert len(edges) == 4
    assert list(tables) == [0, 2]
    with pytest.raises(ModelFormatError, match=lost.name):
        open_shards(folder, (1,))
    with pytest.raises(SettingError, match="shards is 2 0 2; name each shard once"):
        open_shards(folder, (2, 0, 2))


def test_a_shard_that_was_cut_off_is_named(folder) -> None:
    short = next(folder.glob("shard-00002-*"))
    short.write_bytes(short.read_bytes()[:-8])
    with pytest.raises(ModelFormatError, match=rf"{short.name}: has .* bytes, expected"):
        chainrule.load(folder)


def test_saving_over_shards_removes_them(folder) -> None:
    chainrule.load(folder.parent / "lm").save(folder, overwrite=True)
    assert not list(folder.glob("shard-*"))
    assert scores(chainrule.load(folder)) == scores(chainrule.load(folder.parent / "lm"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("edges", [0, 5]),
        ("edges", "0"),
        ("edges", [0, 9, 5, 61]),
        ("edges", [1, 2, 3, 61]),
        ("shards", [[1, 2, 3]]),
        ("shards", None),
        ("shards", [[61, -1, 2]] * 3),
        ("shards", [[61, 10**15, 2]] * 3),
        ("layout", "circles"),
    ],
)
def test_a_damaged_index_is_refused(folder, name: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["settings"][name] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=r"shard|layout"):
        chainrule.load(folder)


@pytest.mark.parametrize(
    ("smoothing", "begins"), [("stupid-backoff", "one"), ("stupid-backoff", "all"), ("absolute", "all")]
)
def test_models_over_a_table_are_the_same_over_shards(smoothing: str, begins: str, tmp_path) -> None:
    config = chainrule.NGramConfig(order=3, smoothing=smoothing, begins=begins)  # type: ignore[arg-type]
    chainrule.train(LINES, config, tokenizer="whitespace").save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "big", shards=3)
    whole, cut = chainrule.load(tmp_path / "lm"), chainrule.load(tmp_path / "big")
    text = [*LINES.lines, "w3 w4 unheard w5", ""]
    assert cut.score(text).tolist() == whole.score(text).tolist()
    with pytest.raises(ModelFormatError, match="only plain n-gram models are served by their shards"):
        open_shards(tmp_path / "big", ())


def test_shards_are_written_as_the_arpa_file_of_the_whole_model(folder) -> None:
    chainrule.convert(folder.parent / "lm", folder.parent / "whole.arpa")
    chainrule.convert(folder, folder.parent / "shards.arpa")
    assert (folder.parent / "shards.arpa").read_bytes() == (folder.parent / "whole.arpa").read_bytes()


def test_what_cannot_be_cut_is_refused(tmp_path, folder) -> None:
    chainrule.load(folder.parent / "lm").compact().save(tmp_path / "compact")
    with pytest.raises(SettingError, match="only a plain n-gram model can be cut into shards; this one is not"):
        shard_model(chainrule.load(tmp_path / "compact").language_model, 2, silent)
    with pytest.raises(SettingError, match="is in shards already; for another number, train it again"):
        chainrule.convert(folder, tmp_path / "out", shards=2)
    with pytest.raises(SettingError, match="shards is 0; expected a whole number from 1 to"):
        chainrule.convert(folder.parent / "lm", tmp_path / "out", shards=0)
    with pytest.raises(SettingError, match="shards are for a folder of ours that is not compact"):
        chainrule.convert(folder.parent / "lm", tmp_path / "out", shards=2, compact=True)
    with pytest.raises(SettingError, match="a model in shards has no compact form; take the model that was cut"):
        chainrule.load(folder).compact()
    assert not (tmp_path / "out").exists()


def test_shards_that_do_not_exist_are_refused(folder) -> None:
    with pytest.raises(SettingError, match="there is no shard 3; the model has 3, from 0"):
        open_shards(folder, (3,))
    with pytest.raises(ModelFormatError, match="is not a model in shards; chainrule convert --shards makes one"):
        open_shards(folder.parent / "lm", ())
