"""The counts that the explorer shows of n-grams are those of the training text, though no model keeps them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.features.serve.explorer.counts import counts_from_shares
from chainrule.features.serve.explorer.records import backoff_chain

TRAIN = Path(__file__).parents[2] / "fixtures" / "train.txt"
ORDER = 3
Gram = tuple[str, ...]


def naive_counts(lines: list[str], *, of_contexts: bool) -> dict[Gram, Counter[str]]:
    """By context: how often each token follows; below the highest order, after how many different tokens."""
    occurrences: Counter[Gram] = Counter()
    for line in lines:
        tokens = ["<s>", *line.split(), "</s>"]
        occurrences.update(tuple(tokens[i - n : i]) for n in (2, 3) for i in range(n, len(tokens) + 1))
    before = Counter(gram[1:] for gram in occurrences if len(gram) == ORDER)
    counts: dict[Gram, Counter[str]] = defaultdict(Counter)
    for gram, count in occurrences.items():
        is_raw = not of_contexts or len(gram) == ORDER or gram[0] == "<s>"
        counts[gram[:-1]][gram[-1]] = count if is_raw else before[gram]
    return counts


@pytest.mark.parametrize(
    "smoothing",
    ["modified-kneser-ney", "modified-kneser-ney-backoff", "kneser-ney", "absolute", "good-turing", "witten-bell"],
)
def test_counts_are_those_of_the_text(tmp_path: Path, smoothing: str) -> None:
    lines = TRAIN.read_text().splitlines()[:600]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    config = chainrule.NGramConfig(order=ORDER, smoothing=smoothing)  # type: ignore[arg-type]
    model = chainrule.train(tmp_path / "text.txt", config, tokenizer="whitespace")
    expected = naive_counts(lines, of_contexts="kneser-ney" in smoothing)
    tokens = np.arange(model.vocabulary_size, dtype=np.int32)
    names = [model.tokenizer.vocabulary.token(token) for token in tokens.tolist()]
    checked = unknown = 0
    for line in lines[:60]:
        words = line.split()
        ids = model.tokenizer.encode_texts([" ".join(words[: len(words) // 2])]).ids[:-1]
        record = backoff_chain(model, model.language_model.start([ids]), ids, tokens)
        for step in record["backoff"]:
            context = tuple(step["context"])
            if not context or step["continuations"] is None:
                assert step["total"] is None
            elif step["total"] is None:
                unknown += 1
            else:
                counts = {name: count for name, count in zip(names, step["counts"], strict=True) if count is not None}
                assert counts == expected[context], context
                assert step["total"] == sum(counts.values())
                checked += 1
    assert (checked, unknown > 0) == (0, True) if smoothing == "witten-bell" else checked > 9 * unknown


def test_no_counts_where_several_or_none_give_the_shares() -> None:
    discounts = [0.6, 1.1, 1.4]
    counts = np.array([1, 1, 2, 7])
    shares = (counts - np.array([0.6, 0.6, 1.1, 1.4])) / counts.sum()
    assert counts_from_shares(shares, discounts).tolist() == counts.tolist()  # type: ignore[union-attr]
    assert counts_from_shares(shares[1:], discounts) is None  # one was pruned
    assert counts_from_shares(shares * 1.01, discounts) is None
    assert counts_from_shares(np.array([0.5]), [0.5, 1.0, 1.5]) is None  # 1, 2 or any number
    assert counts_from_shares(np.array([0.2, 0.0]), discounts) is None
    assert counts_from_shares(np.empty(0), discounts) is None
