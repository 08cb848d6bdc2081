"""The model card: the README.md of a model folder, written from the training record."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from chainrule import __version__
from chainrule.base.memory import bytes_shown
from chainrule.base.tables import markdown_cell, markdown_value
from chainrule.training.config import BUDGETS, DEFAULT_MINUTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADER = (
    "# A model of chainrule",
    "",
    f"Written by chainrule {__version__}; `config.json` holds all of this for programs.",
    "",
    "| what | value |",
    "|---|---|",
)


def model_card(rows: Sequence[tuple[str, str]]) -> str:
    """Return the card in Markdown. rows: as `model_rows` returns them."""
    table = (f"| {_cell(what)} | {_cell(value)} |" for what, value in rows)
    return "\n".join([*_HEADER, *table]) + "\n"


def model_rows(
    family: str,
    tokenizer: str,
    vocabulary_size: int,
    record: dict[str, Any],
    *,
    size: int | None = None,
    signature: str | None = None,
) -> list[tuple[str, str]]:
    """Return names and values of what is known about a model.

    size: in bytes, on disk. signature: that of its measurements. Entries of the record that chainrule would not have
    written are left out, since people may edit config.json.
    """
    of_texts = f"tokens, with <s>, which is never predicted; V is {vocabulary_size - 1:,}"
    outputs = "outputs" if family == "speech" else of_texts
    rows = [("family", family), ("tokenizer", tokenizer), ("vocabulary", f"{vocabulary_size:,} {outputs}")]
    for rows_about in _ROWS:
        with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
            rows += rows_about(record)
    if size is not None:
        rows.append(("size", bytes_shown(size)))
    if signature is not None:
        rows.append(("signature", signature))
    if family == "vectors":
        rows.append(("verbs", "nearest, analogy, odd, map, evaluate"))
    return rows


def _cell(text: str) -> str:
    return markdown_cell(markdown_value(text))


def _settings(record: dict[str, Any]) -> list[tuple[str, str]]:
    settings = ", ".join(f"{name} = {_value(value)}" for name, value in record["settings"].items())
    return [("settings", settings or "none")]


def _data(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("trained on", f"{name} (SHA-256 {value})") for name, value in record["data"].items()]


def _text(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("training text", f"{record['tokens']:,} tokens in {record['documents']:,} documents")]


def _reading(record: dict[str, Any]) -> list[tuple[str, str]]:
    document = record["reading"]["document"]
    return [] if document is None else [("a document is", f"a {document}")]


def _parts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the components of a mixture, each with its weights by class of the previous token."""
    weights = record["weights"] if isinstance(record["weights"][0], list) else [record["weights"]]
    return [
        ("mixed", f"{model['name']}, {model['family']}, weight {', '.join(f'{row[i]:.4f}' for row in weights)}")
        for i, model in enumerate(record["models"])
    ]


def _tuned_on(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("tuned on", f"{name} (SHA-256 {value})") for name, value in record["tuned_on"]["data"].items()]


def _ngrams(record: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = record["ngrams"]
    return [("n-grams", f"{sum(sizes):,}"), ("n-grams by order", ", ".join(f"{size:,}" for size in sizes))]


def _all_discounts(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f"discounts, order {row['order']}", _discounts(row)) for row in record["discounts"]]


def _network(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("parameters", f"{record['parameters']:,}")]


def _pairs(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("too long", f"{record['too_long']:,} pairs, left out")] if record["too_long"] else []


def _budget(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the budget that ended training."""
    training = record["training"]
    set_budgets = [(training[name], name) for name in BUDGETS if training.get(name) is not None]
    [(amount, unit)] = set_budgets or [(DEFAULT_MINUTES, "minutes")]
    return [("budget", f"{amount:,g} {unit.removesuffix('s') if amount == 1 else unit}")]


def _steps(record: dict[str, Any]) -> list[tuple[str, str]]:
    seen, seconds = record["tokens_seen"], record["training_seconds"]
    return [("steps", f"{record['steps']:,}, of {seen:,} tokens in all, in {seconds:.1f} s")]


def _optimiser(record: dict[str, Any]) -> list[tuple[str, str]]:
    training = record["training"]
    rates = f"learning rate {training['learning_rate']:g}"
    if training["optimiser"] == "muon":
        rates += f", of matrices {training['matrix_learning_rate']:g}"
    machine = f"{training['device']}, {'bfloat16' if training['bfloat16'] else 'float32'}"
    return [
        ("batch", f"{training['batch']:,} rows"),
        ("optimiser", f"{training['optimiser']}, {rates}, {_falls(training)}, seed {training['seed']}"),
        ("machine", machine),
    ]


def _while_it_learned(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is otherwise in the finished network."""
    ways = [f"output = {record['output']}"] if "output" in record else []
    if record["training"].get("character_ngrams") == "yes":
        ways.append("vectors of tokens as sums with those of character n-grams")
    return [("while it learned", "; ".join(ways))] if ways else []


def _validation(record: dict[str, Any]) -> list[tuple[str, str]]:
    validation = record["validation"]
    bits = f", {validation['bits_per_byte']:.4f} bits per byte" if "bits_per_byte" in validation else ""
    return [("validation", f"{validation['loss']:.4f} nats a token{bits}, after step {validation['step']:,}")]


def _labels(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("made from", f"a network of family {record['base']}"),
        (
            "labels learned from",
            f"{record['examples']:,} texts, best after epoch {record['best_epoch']} of {record['epochs']}",
        ),
    ]


def _labels_validation(record: dict[str, Any]) -> list[tuple[str, str]]:
    nats, share, texts = (record[f"validation_{name}"] for name in ("nats", "accuracy", "examples"))
    right = "" if share is None else f", {share:.1%} right"
    return [("validation", f"{nats:.4f} nats a label{right} in {texts:,} texts")]


def _labels_test(record: dict[str, Any]) -> list[tuple[str, str]]:
    test = record["test"]
    interval = f"{100 * test['low']:.1f} to {100 * test['high']:.1f} at 95 %"
    return [("test", f"{test['accuracy']:.1%} right ({interval}) of {test['examples']:,}, {test['nats']:.4f} nats")]


def _training(record: dict[str, Any]) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return [("trained", f"{record['trained']}, in {record['seconds']:.1f} s"), ("with", versions)]


def _origin(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("read from", record["read_from"])]


def _discounts(discounts: dict[str, Any]) -> str:
    values = ", ".join(f"{value:.4f}" for value in discounts["values"])
    return values if discounts["estimated"] else f"{values} (fallback: {discounts['problem']})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_ROWS = (
    *(_settings, _data, _text, _reading, _parts, _tuned_on, _ngrams, _all_discounts),
    *(_network, _pairs, _budget, _steps, _optimiser, _while_it_learned, _validation),
    *(_labels, _labels_validation, _labels_test, _training, _origin),
)


def _falls(training: Mapping[str, Any]) -> str:
    """Return how the learning rate changed after the warm-up, in words."""
    schedule, share = training["schedule"], training.get("decay_share", 0.0)
    if schedule == "constant" and share:
        return f"constant, then linear to {training.get('final_share', 0.0):g} in the last {share:.0%} of the steps"
    return str(schedule)
