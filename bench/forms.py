"""Forms: MaskBench's schemas through ours and through llguidance with the model's own tokenizer; what masks cost.

    git clone https://github.com/guidance-ai/jsonschemabench
    python bench/forms.py MODEL jsonschemabench/maskbench/data [--schemas 1000]

A schema's valid instances must be accepted token by token, up to their end, and its invalid ones refused. MODEL has
pieces of a tokenizer.json. The last rows generate with the model, with a form and without.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import llguidance
import numpy as np
from machine import circumstances

import chainrule
from chainrule.decoding.form import Form, form_of
from chainrule.errors import SettingError

_LONGEST = 20_000  # characters of an instance
_RUNS, _TOKENS = 7, 64


class Ours:
    def __init__(self, model: chainrule.CausalModel) -> None:
        self.tokenizer = model.tokenizer
        self.seconds: list[float] = []

    def compile(self, schema: Any) -> Form | None:
        try:
            return form_of(chainrule.Limits(json_schema=schema), self.tokenizer, "")
        except SettingError:
            return None

    def accepts(self, form: Form, text: str) -> bool:
        state = form.begin()
        for token in self.tokenizer.encode_texts([text]).ids.tolist():
            began = time.perf_counter()
            mask = state.mask()
            self.seconds.append(time.perf_counter() - began)
            if not mask[token]:
                return False
            state.add(token)
        return True


class Theirs:
    def __init__(self, model: chainrule.CausalModel) -> None:
        definition = model.tokenizer.splitter.definition
        assert definition is not None
        import tokenizers

        self.library = tokenizers.Tokenizer.from_str(definition.decode())
        self.tokens = llguidance.LLTokenizer(definition.decode())
        self.seconds: list[float] = []

    def compile(self, schema: Any) -> Any:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        if llguidance.LLMatcher.validate_grammar(grammar, self.tokens):
            return None
        return llguidance.LLMatcher(self.tokens, grammar, log_level=0)

    def accepts(self, matcher: Any, text: str) -> bool:
        matcher = matcher.deep_copy()
        for token in self.library.encode(text, add_special_tokens=False).ids:
            began = time.perf_counter()
            matcher.compute_bitmask()
            self.seconds.append(time.perf_counter() - began)
            if not matcher.consume_token(token):
                return False
        return bool(matcher.is_accepting())


def measure(engine: Ours | Theirs, files: list[Path]) -> tuple[Counter[str], dict[str, list[bool]]]:
    counts, answers = Counter[str](), {}
    for path in files:
        described = json.loads(path.read_text())
        began = time.perf_counter()
        form: Any = engine.compile(described["schema"])
        counts["compiling, us"] += round((time.perf_counter() - began) * 1e6)
        counts["schemas"] += 1
        if form is None:
            counts["refused schemas"] += 1
            continue
        for test in described["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            if len(text) > _LONGEST:
                continue
            accepted = engine.accepts(form, text)
            answers.setdefault(path.name, []).append(accepted)
            kind = "valid" if test["valid"] else "invalid"
            counts[kind] += 1
            counts[f"{kind}, as it should be"] += accepted == test["valid"]
    return counts, answers


def speed(model: chainrule.CausalModel, limits: chainrule.Limits) -> float:
    """Tokens a second of one greedy text."""
    began = time.perf_counter()
    [text] = model.sample("Describe it:\n", 1, chainrule.SamplingConfig(temperature=0), limits, seed=1)
    return len(text.tokens) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--schemas", type=int, default=1000)
    args = parser.parse_args()
    print(circumstances())
    model = chainrule.load(args.model, chainrule.CausalModel)
    files = sorted(args.data.glob("*.json"))
    files = sorted(random.Random(1).sample(files, min(args.schemas, len(files))))
    found = {}
    for name, engine in (("ours", Ours(model)), ("llguidance", Theirs(model))):
        counts, found[name] = measure(engine, files)
        micros = np.array(engine.seconds) * 1e6
        print(f"{name}: {counts['schemas']:,} schemas, {counts['refused schemas']} refused")
        for kind in ("valid", "invalid"):
            print(f"  {kind} instances: {counts[kind]:,}, {counts[f'{kind}, as it should be']:,} as it should be")
        print(
            f"  a schema {counts['compiling, us'] / counts['schemas'] / 1e3:.2f} ms; a mask: median "
            f"{np.median(micros):.0f} us, mean {micros.mean():.0f} us, 99 % {np.quantile(micros, 0.99):.0f} us"
        )
    others = sum(found["ours"][name] != found["llguidance"].get(name) for name in found["ours"])
    print(f"schemas with other answers: {others}", flush=True)
    rows = {"without a form": chainrule.Limits(max_tokens=_TOKENS, min_tokens=_TOKENS)}
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 100}  # goes on beyond the tokens measured
    rows["in a form"] = chainrule.Limits(max_tokens=_TOKENS, json_schema=schema)
    for limits in rows.values():
        speed(model, limits)
    runs = [[speed(model, limits) for limits in rows.values()] for _ in range(_RUNS)]  # in turn
    for name, speeds in zip(rows, zip(*runs, strict=True), strict=True):
        print(f"one greedy text, {name}: {np.median(speeds):.1f} tokens/s")


if __name__ == "__main__":
    main()
