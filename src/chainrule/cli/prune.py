"""chainrule prune MODEL -o SMALL: an n-gram model with fewer n-grams."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import (
    Json,
    ModelMarkerRule,
    ModelOutput,
    ModelPath,
    ModelTokenizerName,
    Overwrite,
    TextFile,
    WholeNumber,
)
from chainrule.cli.models import check_model_target, opened, save_or_keep
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs, text_for
from chainrule.report.tables import text_table

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.api.model import Model
    from chainrule.base.progress import Progress


def prune(
    model: ModelPath,
    /,
    *,
    output: ModelOutput,
    entropy: Annotated[
        float | None,
        Parameter(help="Drop n-grams whose loss raises the perplexity by less than this share, such as 1e-8."),
    ] = None,
    to_ngrams: Annotated[
        int | None, WholeNumber, Parameter(help="Keep so many n-grams, those that matter most by the same measure.")
    ] = None,
    vocabulary: Annotated[
        str | None, Parameter(help="Keep the tokens of this file, one a line; the others become <unk>.")
    ] = None,
    for_text: Annotated[
        TextFile | None, Parameter(help="Keep what this text can need: it is scored as before, and only it is.")
    ] = None,
    histories: Annotated[
        str,
        Parameter(
            help="How contexts are weighed. discounts: by what discounting left of their counts; chain: by the model's "
            "own probabilities; or a text, best the one that it was trained on: by frequencies in it."
        ),
    ] = "discounts",
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Make an n-gram model smaller.

    By relative entropy (Stolcke 1998), to a number of n-grams, to a
    vocabulary, or to what a text can need. Back-off weights are computed anew,
    so that all distributions sum to one; for a text alone they stay as they
    are. To drop n-grams by their counts, train with --prune.

    Kneser-Ney models are best weighed by discounts (the default), unless they
    have been pruned before; then by the text that they were trained on. Models
    whose lower orders are relative frequencies may be weighed by the chain.
    """
    ways = {"--entropy": entropy, "--to-ngrams": to_ngrams, "--vocabulary": vocabulary, "--for-text": for_text}
    if sum(way is not None for way in ways.values()) != 1:
        raise CycloptsError(msg=f"Say one of {', '.join(ways)}.")
    if histories != "discounts" and entropy is None and to_ngrams is None:
        raise CycloptsError(msg="--histories is for --entropy and --to-ngrams.")
    check_model_target(output, overwrite=overwrite)
    began = time.perf_counter()
    with progress() as told:
        large = opened(model, tokenizer, markers, told)
        if histories == "discounts" and (entropy or to_ngrams) and _was_pruned(large):
            note("the model was pruned before, so its discounts tell counts badly; --histories and its text do better")
        small = _pruned(large, model, entropy, to_ngrams, vocabulary, for_text, histories, reading, told)
        save_or_keep(small, output, overwrite=overwrite, told=told)
    before, after = small.record["pruned"][-1]["ngrams_before"], small.record["ngrams"]
    size = sum(path.stat().st_size for path in (output.iterdir() if output.is_dir() else [output]))
    seconds = time.perf_counter() - began
    if json:
        print_json({"model": str(output), "ngrams_before": before, "ngrams": after, "bytes": size, "seconds": seconds})
        return
    rows = []
    for order, number in enumerate(before, 1):
        left = after[order - 1] if order <= len(after) else 0
        rows.append([str(order), f"{number:,}", f"{left:,}", f"{left / number:.2%}" if number else ""])
    rows.append(["all", f"{sum(before):,}", f"{sum(after):,}", f"{sum(after) / sum(before):.2%}"])
    print(text_table(["order", "n-grams", "kept", ""], rows))
    print(f"{output}: {size / 1e6:,.1f} MB, {seconds:.1f} s")


def _was_pruned(model: Model) -> bool:
    return bool(model.record.get("pruned")) or any(model.record.get("settings", {}).get("prune", ()))


def _pruned(
    large: Model,
    path: Path,
    entropy: float | None,
    to_ngrams: int | None,
    vocabulary: str | None,
    for_text: str | None,
    histories: str,
    reading: TextOptions,
    told: Progress,
) -> Model:
    from chainrule.api.prune import prune_by_entropy, prune_to_text, prune_to_vocabulary

    if vocabulary is not None:
        return prune_to_vocabulary(large, vocabulary, told)
    if for_text is not None:
        source = text_for([path], reading, for_text)
        small = prune_to_text(large, source, told)
        note_repairs(source)
        return small
    weighed = histories if histories in ("discounts", "chain") else text_for([path], reading, histories)
    return prune_by_entropy(large, threshold=entropy, ngrams=to_ngrams, histories=weighed, progress=told)
