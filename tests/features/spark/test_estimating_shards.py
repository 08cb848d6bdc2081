"""Workers estimate the local model, to the byte, however its n-grams are shared out; here without Spark."""

from __future__ import annotations

import random

import numpy as np
import pytest
from frames import Frame
from oracles import random_documents, stream_of

from chainrule.base.progress import silent
from chainrule.errors import SettingError, TextError
from chainrule.features.spark.by_level import BY_LEVEL, check_by_level
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.layouts import base_of
from chainrule.ngram.saving import shard_model
from chainrule.ngram.training import count_stream, train_ngram

pytest.importorskip("pyspark")

from chainrule.features.spark import transport as chunks
from chainrule.features.spark import transport as messages
from chainrule.features.spark.estimation import estimate_shards
from chainrule.features.spark.sections import sections
from chainrule.features.spark.workers import PARTS

SIZE = 150
DOCUMENTS = random_documents(3, SIZE - 3, 200, 20)  # the last words do not occur
CONFIGS = [
    NGramConfig(order=2),
    NGramConfig(order=3, prune=(0, 1)),
    NGramConfig(order=4, prune=(0, 0, 1, 2), begins="all"),
    NGramConfig(order=5, interpolate_unigrams=False),
    NGramConfig(order=3, open_vocabulary=False),
    NGramConfig(order=3, smoothing="kneser-ney", discount=(0.5, 0.75)),
    NGramConfig(order=4, smoothing="kneser-ney-backoff"),
    NGramConfig(order=3, smoothing="modified-kneser-ney-backoff", prune=(0, 0, 1)),
    NGramConfig(order=3, smoothing="absolute"),
    NGramConfig(order=4, smoothing="good-turing"),
    NGramConfig(order=3, smoothing="witten-bell", prune=(0, 1)),
    NGramConfig(order=3, smoothing="stupid-backoff", begins="all"),
]


def runs_of(config: NGramConfig, bounds: list[int], chance: random.Random) -> Frame:
    """The counts of parts of the text, as the rows of several tasks."""
    tasks: list[list[tuple[int, bytes, None]]] = []
    for start in range(0, len(DOCUMENTS), 70):
        counts = count_stream(stream_of(DOCUMENTS[start : start + 70]), SIZE, config)
        parts = enumerate(sections(counts, bounds))
        tasks.append([(part, section.pack(), None) for part, section in parts if not section.is_empty])
    return Frame(PARTS, tasks, chance)


@pytest.mark.spread(6)
@pytest.mark.parametrize(
    ("config", "partitions", "shards"),
    [(config, (7, 1, 2)[i % 3], (3, 1, 7)[i % 3]) for i, config in enumerate(CONFIGS)],
    ids=lambda value: getattr(value, "smoothing", None),
)
def test_workers_estimate_the_local_model(
    config: NGramConfig, partitions: int, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (messages, chunks):
        monkeypatch.setattr(module, "ROW_BYTES", 600)  # so that what is sent comes in pieces
    whole, record = train_ngram(stream_of(DOCUMENTS), SIZE, config)
    expected = base_of(shard_model(whole, shards, silent))
    chance = random.Random(partitions)
    cuts = sorted(chance.sample(range(1, SIZE), partitions + 2))
    bounds = [0, *cuts, SIZE]
    runs = runs_of(config, bounds, chance)
    model, own_record = estimate_shards(runs, config, bounds, partitions, shards, "the text", silent)
    assert type(model) is type(shard_model(whole, 1, silent))
    model = base_of(model)
    assert model.edges == expected.edges
    for own, shard in zip(model.shards, expected.shards, strict=True):
        assert own.level_sizes == shard.level_sizes
        for name, array in shard.arrays().items():
            assert np.array_equal(own.arrays()[name], array), name
    assert own_record == record


def test_all_smoothings_are_estimated_or_refused() -> None:
    assert {config.smoothing for config in CONFIGS} == set(BY_LEVEL)
    with pytest.raises(SettingError, match="lidstone cannot be estimated part by part; choose one of absolute"):
        check_by_level(NGramConfig(smoothing="lidstone"))
    with pytest.raises(SettingError, match="kenlm_compatible needs the counts of the whole text"):
        check_by_level(NGramConfig(kenlm_compatible=True))


def test_the_error_of_a_text_is_raised() -> None:
    bad = Frame(PARTS, [[(0, b"", "document 9: byte 0xe9 is not UTF-8")]], random.Random(0))
    with pytest.raises(TextError, match=r"latin.txt: document 9: byte 0xe9"):
        estimate_shards(bad, CONFIGS[0], [0, SIZE], 2, 2, "latin.txt", silent)
