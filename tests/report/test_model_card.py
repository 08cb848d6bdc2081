"""The model card."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chainrule.models.files.model_card import model_card, model_rows
from chainrule.text.corpus.corpus import Lines

RECORD = {
    "settings": {"order": 2, "prune": [0], "kenlm_compatible": False},
    "data": {"a|b `c`\n<d>.txt": "12ab", "plain.txt": "34cd"},
    "documents": 1234,
    "tokens": 56789,
    "ngrams": [1000, 20000],
    "discounts": [
        {"order": 1, "values": [0.5, 1.0, 1.5], "estimated": False, "problem": "order 1: no 1-gram is seen twice"},
        {"order": 2, "values": [0.123456, 1.0, 1.5], "estimated": True},
    ],
    "trained": "2026-01-01T00:00:00+00:00",
    "seconds": 1.26,
    "versions": {"chainrule": "0.1.0", "python": "3.11.7"},
}


def card_of(*known: Any, **more: Any) -> str:
    return model_card(model_rows(*known, **more))


def rows_of(card: str) -> list[list[str]]:
    """The cells of the card's table as Markdown reads them; every line of it must be a row of two."""
    before, _, table = card.partition("|---|---|\n")
    assert before.endswith("| what | value |\n")
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in table.splitlines()]
    assert all(len(row) == 4 and row[0] == row[3] == "" for row in rows)
    return [row[1:3] for row in rows]


def test_the_card_has_all_of_the_record() -> None:
    assert rows_of(card_of("ngram", "word", 12345, RECORD)) == [
        ["family", "ngram"],
        ["tokenizer", "word"],
        ["vocabulary", "`12,345 tokens, with <s>, which is never predicted; V is 12,344`"],
        ["settings", "`order = 2, prune = [0], kenlm_compatible = false`"],
        ["trained on", "``a\\|b `c`\\n<d>.txt (SHA-256 12ab)``"],
        ["trained on", "plain.txt (SHA-256 34cd)"],
        ["training text", "56,789 tokens in 1,234 documents"],
        ["n-grams", "21,000"],
        ["n-grams by order", "1,000, 20,000"],
        ["discounts, order 1", "0.5000, 1.0000, 1.5000 (fallback: order 1: no 1-gram is seen twice)"],
        ["discounts, order 2", "0.1235, 1.0000, 1.5000"],
        ["trained", "2026-01-01T00:00:00+00:00, in 1.3 s"],
        ["with", "chainrule 0.1.0, python 3.11.7"],
    ]


def test_the_card_of_a_network_has_its_size_and_validation() -> None:
    record = {"parameters": 305152, "validation": {"loss": 5.13, "step": 984, "tokens": 25350, "bits_per_byte": 1.8}}
    assert rows_of(card_of("transformer", "bpe", 12345, record))[3:] == [
        ["parameters", "305,152"],
        ["validation", "5.1300 nats a token, 1.8000 bits per byte, after step 984"],
    ]


def test_the_card_of_a_network_has_its_training_settings() -> None:
    training = {"minutes": 0.5, "steps": None, "batch": 128, "optimiser": "muon", "learning_rate": 0.01}
    training |= {"matrix_learning_rate": 0.02, "schedule": "constant", "seed": 3, "device": "cpu", "bfloat16": False}
    record = {"steps": 1200, "tokens_seen": 614400, "training_seconds": 29.96, "training": training}
    shown = [
        ["budget", "0.5 minutes"],
        ["steps", "1,200, of 614,400 tokens in all, in 30.0 s"],
        ["batch", "128 rows"],
        ["optimiser", "muon, learning rate 0.01, of matrices 0.02, constant, seed 3"],
        ["machine", "cpu, float32"],
    ]
    assert rows_of(card_of("transformer", "bpe", 5, record))[3:] == shown
    by_default = {**record, "training": {**training, "minutes": None, "optimiser": "adamw"}}
    rows = dict(rows_of(card_of("transformer", "bpe", 5, by_default)))
    assert rows["budget"] == "5 minutes"
    one = {**record, "training": {**training, "minutes": None, "epochs": 1}}
    assert ["budget", "1 epoch"] in rows_of(card_of("transformer", "bpe", 5, one))
    assert rows["optimiser"] == "adamw, learning rate 0.01, constant, seed 3"
    assert "while it learned" not in rows
    sampled = {**record, "output": "sampled", "training": {**training, "character_ngrams": "yes"}}
    ways = "output = sampled; vectors of tokens as sums with those of character n-grams"
    assert ["while it learned", ways] in rows_of(card_of("transformer", "bpe", 5, sampled))


def test_the_card_of_a_mixture_lists_its_parts() -> None:
    models = [{"name": "lm/", "family": "ngram"}, {"name": "cache", "family": "cache"}]
    record = {"models": models, "weights": [[0.75, 0.25], [0.5, 0.5]], "tuned_on": {"data": {"valid.txt": "ab"}}}
    assert rows_of(card_of("mixture", "word", 5, record))[3:] == [
        ["mixed", "lm/, ngram, weight 0.7500, 0.5000"],
        ["mixed", "cache, cache, weight 0.2500, 0.5000"],
        ["tuned on", "valid.txt (SHA-256 ab)"],
    ]
    flat = {**record, "weights": [0.75, 0.25]}  # as a log-linear one has them
    assert ["mixed", "lm/, ngram, weight 0.7500"] in rows_of(card_of("mixture", "word", 5, flat))


@pytest.mark.parametrize(("size", "shown"), [(812, "812 bytes"), (3_400, "3.4 kB"), (12_345_678, "12.3 MB")])
def test_the_size_and_the_signature_end_the_card(size: int, shown: str) -> None:
    card = card_of("uniform", "byte", 5, {}, size=size, signature="tok:byte|vocab:5:ab")
    assert rows_of(card)[-2:] == [["size", shown], ["signature", "tok:byte\\|vocab:5:ab"]]


def test_the_card_of_a_classifier_has_its_labels_and_accuracy() -> None:
    record = {
        "base": "masked",
        "examples": 1288,
        "best_epoch": 9,
        "epochs": 12,
        "validation_nats": 0.25,
        "validation_accuracy": 0.875,
        "validation_examples": 32,
        "test": {"accuracy": 0.975, "low": 0.9134, "high": 0.9931, "examples": 80, "nats": 0.0991},
    }
    learned = [
        ["made from", "a network of family masked"],
        ["labels learned from", "1,288 texts, best after epoch 9 of 12"],
    ]
    validation = ["validation", "0.2500 nats a label, 87.5% right in 32 texts"]
    test = ["test", "97.5% right (91.3 to 99.3 at 95 %) of 80, 0.0991 nats"]
    assert rows_of(card_of("classifier", "bpe", 5, record))[3:] == [*learned, validation, test]
    unvalidated = {**record, "validation_nats": None, "validation_accuracy": None, "validation_examples": 0}
    del unvalidated["test"]
    assert rows_of(card_of("classifier", "bpe", 5, unvalidated))[3:] == learned


def test_the_card_escapes_html() -> None:
    card = card_of("ngram", "word", 3, RECORD)
    assert "<" not in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", card)


def test_a_model_without_a_record_has_a_card() -> None:
    assert rows_of(card_of("uniform", "character", 3, {}))[:2] == [["family", "uniform"], ["tokenizer", "character"]]


def test_a_model_read_from_a_file_says_so() -> None:
    card = card_of("ngram", "whitespace", 4, {"read_from": "a|b.arpa", "ngrams": [4]})
    assert rows_of(card)[-1] == ["read from", "a\\|b.arpa"]


def test_the_card_lies_in_the_model_folder(tmp_path) -> None:
    import chainrule

    model = chainrule.train(Lines(["a b", "b"], "two lines"), chainrule.UniformConfig())
    model.save(tmp_path / "lm")
    rows = rows_of((tmp_path / "lm/README.md").read_text().partition("\n\n<!-- SHA-256")[0])
    assert ["training text", "3 tokens in 2 documents"] in rows
    assert ["vocabulary", "`5 tokens, with <s>, which is never predicted; V is 4`"] in rows


ODD = [None, True, -1, 2.5, float("inf"), "te|x\nt", [], [None], [["a"]], {}, {"a": None}, {"a": {"b": []}}, 10**5000]


@pytest.mark.parametrize("field", RECORD)
def test_a_record_that_was_edited_by_hand_still_makes_a_card(field: str) -> None:
    """Whatever a field holds, the others are told, and the row of the odd one is left out."""
    for odd in ODD:
        rows = rows_of(card_of("ngram", "word", 12345, {**RECORD, field: odd}))
        assert len({what for what, _ in rows}) >= 8
    odd_entries = [
        {"order": 1},
        {"order": 1, "values": 3, "estimated": True},
        {"order": "\n", "values": [1], "estimated": False, "problem": "\n"},
    ]
    for odd_entry in odd_entries:
        rows_of(card_of("ngram", "word", 12345, {**RECORD, "discounts": [odd_entry]}))
