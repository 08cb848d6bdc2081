"""The model card: the README.md of a model folder, written by the program from the training record."""

from __future__ import annotations

import json
from typing import Any


def model_card(family: str, tokenizer: str, vocabulary_size: int, record: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        f"# A {family} language model",
        "",
        "Written by [chainrule](https://pypi.org/project/chainrule); `config.json` holds all of this for programs.",
        "",
        "| what | value |",
        "|---|---|",
        f"| family | {family} |",
        f"| tokenizer | {tokenizer} |",
        f"| vocabulary | {vocabulary_size:,} tokens, with <unk>, <s> and </s> |",
    ]
    if "settings" in record:
        settings = ", ".join(f"{name} = {_value(value)}" for name, value in record["settings"].items())
        lines.append(f"| settings | {settings or 'none'} |")
    lines += [f"| trained on | `{name}` (SHA-256 {value}) |" for name, value in record.get("data", {}).items()]
    if "tokens" in record:
        lines.append(f"| training text | {record['tokens']:,} tokens in {record['documents']:,} documents |")
    if "ngrams" in record:
        lines.append(f"| n-grams by order | {', '.join(f'{size:,}' for size in record['ngrams'])} |")
    lines += [f"| discounts, order {row['order']} | {_discounts(row)} |" for row in record.get("discounts", [])]
    if "trained" in record:
        lines.append(f"| trained | {record['trained']}, in {record['seconds']:.1f} s |")
        lines.append(f"| with | {', '.join(f'{name} {version}' for name, version in record['versions'].items())} |")
    if "read_from" in record:
        lines.append(f"| read from | `{record['read_from']}` |")
    return "\n".join(lines) + "\n"


def _discounts(discounts: dict[str, Any]) -> str:
    values = ", ".join(f"{value:.4f}" for value in discounts["values"])
    return values if discounts["estimated"] else f"{values} (fallback: {discounts['problem']})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
