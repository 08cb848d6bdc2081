"""An open model here and in transformers, in one run: opening, one stream, many at once, scoring; ours in int8, too.

python bench/open_models.py FOLDER TEXT [opening] [one] [many] [scoring]

FOLDER: a Hugging Face folder of a causal model; it is converted to a folder of ours beside the temporary files first.
Both sides have the same weights in float32, the same threads and the same tokens; what they say is compared, too. What
is asked for is measured; all of it, without a name. Needs transformers, which chainrule does not.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import transformers
from machine import circumstances

import chainrule
from chainrule.decoding.config import GREEDY
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

PROMPT, NEW = 16, 128  # tokens
MANY = 16
SCORED, WINDOW = 20_000, 1_024
REPEATS = 3
PARTS = ("opening", "one", "many", "scoring")

# Run in a process of its own: seconds, and resident megabytes before, after opening and after a first text.
OPENING = """
import resource, sys, time
import {module}
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
before, began = resident(), time.perf_counter()
model = {opened}
seconds = time.perf_counter() - began
opened = resident()
{used}
print(seconds, before, opened, resident())
"""


class Sides(NamedTuple):
    """The same model, twice, and in int8. theirs_of: their id of each of ours. first: their id before a text."""

    ours: chainrule.Model
    compact: chainrule.Model
    theirs: Any
    theirs_of: Int64[ndarray, " V"]
    first: int


def main() -> None:
    source, text, *wanted = sys.argv[1:]
    parts = wanted or PARTS
    print(circumstances())
    print(f"transformers {transformers.__version__}, torch on {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder) / "lm"
        model = chainrule.load(source)
        model.save(converted)
        model.compact().save(converted.with_name("int8"))
        del model
        if "opening" in parts:
            opening(source, converted)
        if set(parts) == {"opening"}:
            return
        sides = both(source, converted)
        lines = [line for line in Path(text).read_text(encoding="utf-8").split("\n") if line.strip()]
        ids = sides.ours.tokenizer.encode_texts(["\n".join(lines[:600])]).ids[:-1]
        for name, rows in (("one", 1), ("many", MANY)):
            if name in parts:
                generating(sides, [ids[PROMPT * row :][:PROMPT] for row in range(rows)])
        if "scoring" in parts:
            scoring(sides, ids[:SCORED])


def both(source: str, converted: Path) -> Sides:
    ours = chainrule.load(converted)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    numbering = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    theirs_of = numbering.theirs()
    return Sides(ours, ours.compact(), theirs, theirs_of, int(theirs_of[2 if numbering.begin is None else 1]))


def opening(source: str, converted: Path) -> None:
    weights = sum(file.stat().st_size for file in converted.glob("*.safetensors")) / 1e6
    print(f"\nopening, {weights:,.0f} MB of weights    seconds    resident MB: before, opened, after one token")
    sides = {
        "ours, from our folder": ("torch, chainrule", f"chainrule.load({str(converted)!r})", "model.next('The')"),
        "ours, int8, from our folder": (
            "torch, chainrule",
            f"chainrule.load({str(converted.with_name('int8'))!r})",
            "model.next('The')",
        ),
        "ours, from theirs": ("torch, chainrule", f"chainrule.load({source!r})", "model.next('The')"),
        "transformers": (
            "torch, transformers",
            f"transformers.AutoModelForCausalLM.from_pretrained({source!r}, dtype=torch.float32)",
            "model(torch.tensor([[1, 2]]))",
        ),
    }
    for name, (module, opened, used) in sides.items():
        program = OPENING.format(module=module, opened=opened, used=used)
        runs = [
            [float(figure) for figure in subprocess.check_output([sys.executable, "-c", program], text=True).split()]
            for _ in range(REPEATS)
        ]
        seconds, before, opened_at, after = min(runs)
        print(f"  {name:<34} {seconds:7.2f}    {before:,.0f}, {opened_at:,.0f}, {after:,.0f}")


def generating(sides: Sides, prompts: Sequence[ndarray]) -> None:
    """Greedy, no text ended early."""
    ours, compact = sides.ours.language_model, sides.compact.language_model
    end = ours.end
    asked = torch.from_numpy(np.stack([np.append(sides.first, sides.theirs_of[prompt]) for prompt in prompts]))
    ends = [end, *ours.network.config.ends] if hasattr(ours, "network") else [end]  # type: ignore[attr-defined]
    constraints = Constraints(min_tokens=NEW, max_tokens=NEW, banned=[0])

    def of_ours(model: Any) -> list[list[int]]:
        return [sides.theirs_of[text.tokens].tolist() for text in sample(model, prompts, GREEDY, constraints, seed=0)]

    @torch.inference_mode()
    def of_theirs() -> list[list[int]]:
        barred = sides.theirs_of[ends].tolist()
        found = sides.theirs.generate(
            asked,
            attention_mask=torch.ones_like(asked),
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            pad_token_id=barred[0],
        )
        return found[:, asked.shape[1] :].tolist()

    seconds, (mine, other, rounded) = alternately([lambda: of_ours(ours), of_theirs, lambda: of_ours(compact)])
    same, also = (sum(one == two for one, two in zip(mine, texts, strict=True)) for texts in (other, rounded))
    print(f"\n{len(prompts)} at once, greedy, {NEW} tokens each    seconds    tokens a second")
    for name, taken in zip(("ours", "transformers", "ours, int8"), seconds, strict=True):
        print(f"  {name:<34} {taken:7.2f}    {len(prompts) * NEW / taken:,.1f}")
    print(f"  ratio {seconds[1] / seconds[0]:.2f}; texts that are the same: {same} of {len(prompts)}, in int8 {also}")


def scoring(sides: Sides, ids: ndarray) -> None:
    """The first tokens in windows that share nothing; then in our own windows, where each token sees more."""
    ours = sides.ours.language_model
    windows = [ids[begin : begin + WINDOW - 1] for begin in range(0, len(ids), WINDOW - 1)]

    def of_ours(model: Any) -> list[ndarray]:
        return model.score(windows, end=False)

    @torch.inference_mode()
    def of_theirs() -> list[ndarray]:
        found = []
        for window in windows:
            tokens = torch.from_numpy(np.concatenate([[sides.first], sides.theirs_of[window]]))
            log_probs = sides.theirs(tokens[None, :-1]).logits[0].double().log_softmax(-1)
            found.append(log_probs.gather(1, tokens[1:, None])[:, 0].numpy())
        return found

    compact = sides.compact.language_model
    seconds, results = alternately([lambda: of_ours(ours), of_theirs, lambda: of_ours(compact)], repeats=1)
    mine, other, rounded = results
    furthest = max(float(np.abs(one - two).max()) for one, two in zip(mine, other, strict=True))
    print(f"\nscoring {len(ids):,} tokens in windows of {WINDOW}    seconds    nats a token")
    for name, taken, found in zip(("ours", "transformers", "ours, int8"), seconds, results, strict=True):
        print(f"  {name:<34} {taken:7.2f}    {-np.concatenate(found).mean():.6f}")
    print(f"  ratio {seconds[1] / seconds[0]:.2f}; largest difference of a log-probability: {furthest:.1e}")
    nats = [-np.concatenate(found).mean() for found in (mine, rounded)]
    print(f"  perplexity {np.exp(nats[0]):.4f}, in int8 {np.exp(nats[1]):.4f}, {np.exp(nats[1] - nats[0]) - 1:+.3%}")
    began = time.perf_counter()
    streamed = ours.score_stream(ids)
    print(f"  {'ours, in our windows':<34} {time.perf_counter() - began:7.2f}    {-streamed.mean():.6f}")


def alternately(sides: Sequence[Callable[[], Any]], repeats: int = REPEATS) -> tuple[list[float], list[Any]]:
    """The least seconds of each, run in turn, and what the last run gave."""
    best, results = [np.inf] * len(sides), [None] * len(sides)
    for _ in range(repeats):
        for number, side in enumerate(sides):
            gc.collect()
            began = time.perf_counter()
            results[number] = side()
            best[number] = min(best[number], time.perf_counter() - began)
    return best, results


if __name__ == "__main__":
    main()
