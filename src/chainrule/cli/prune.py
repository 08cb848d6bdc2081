"""chainrule prune MODEL -o SMALL: makes an n-gram model smaller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import text_table
from chainrule.cli.shared.arguments import (
    Json,
    ModelMarkerRule,
    ModelOutput,
    ModelPath,
    ModelTokenizerName,
    Overwrite,
    TextFile,
    WholeNumber,
)
from chainrule.cli.shared.models import check_model_target, open_model, save_or_keep
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs, text_for

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.api.models.model import Model
    from chainrule.base.progress import Progress


def prune(
    model: ModelPath,
    /,
    *,
    output: ModelOutput,
    entropy: Annotated[
        float | None,
        Parameter(help="Drop n-grams whose removal raises the perplexity by less than this fraction, such as 1e-8."),
    ] = None,
    to_ngrams: Annotated[
        int | None, WholeNumber, Parameter(help="Keep this many n-grams, those that matter most by the same measure.")
    ] = None,
    vocabulary: Annotated[
        str | None, Parameter(help="Keep the tokens in this file, one a line; the others become <unk>.")
    ] = None,
    for_text: Annotated[
        TextFile | None, Parameter(help="Keep only what is needed to score this text exactly as before.")
    ] = None,
    histories: Annotated[
        str,
        Parameter(
            help="How to weigh contexts. discounts: by their discounted counts; chain: by the model's own "
            "probabilities; or a text: by their frequencies in it, best in the training text."
        ),
    ] = "discounts",
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Make an n-gram model smaller.

        $ chainrule prune lm/ --to-ngrams 1000 -o small/

    By relative entropy (Stolcke 1998), to a number of n-grams, to a
    vocabulary, or to what a text needs. Backoff weights are recomputed, so
    that all distributions sum to one, except with --for-text. To drop n-grams
    by their counts, train with --prune.

    For Kneser-Ney models, the best --histories are discounts (the default) or,
    if the model was pruned before, the training text. For models whose lower
    orders are relative frequencies, chain works too.
    """
    methods = {"--entropy": entropy, "--to-ngrams": to_ngrams, "--vocabulary": vocabulary, "--for-text": for_text}
    if sum(value is not None for value in methods.values()) != 1:
        raise CycloptsError(msg=f"Give one of {', '.join(methods)}.")
    if histories != "discounts" and entropy is None and to_ngrams is None:
        raise CycloptsError(msg="--histories is for --entropy and --to-ngrams.")
    check_model_target(output, overwrite=overwrite)
    began = time.perf_counter()
    with progress_bar() as progress:
        large = open_model(model, tokenizer, markers, progress)
        if histories == "discounts" and (entropy or to_ngrams) and _was_pruned(large):
            note(
                "the model was pruned before, so its discounts say little about its counts; --histories with its "
                "training text does better"
            )
        small = _prune(large, model, entropy, to_ngrams, vocabulary, for_text, histories, reading, progress)
        save_or_keep(small, output, overwrite=overwrite, progress=progress)
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


def _prune(
    large: Model,
    path: Path,
    entropy: float | None,
    to_ngrams: int | None,
    vocabulary: str | None,
    for_text: str | None,
    histories: str,
    reading: TextOptions,
    progress: Progress,
) -> Model:
    from chainrule.api.editing.prune import prune_by_entropy, prune_to_text, prune_to_vocabulary

    if vocabulary is not None:
        return prune_to_vocabulary(large, vocabulary, progress)
    if for_text is not None:
        source = text_for([path], reading, for_text)
        small = prune_to_text(large, source, progress)
        note_repairs(source)
        return small
    weights = histories if histories in ("discounts", "chain") else text_for([path], reading, histories)
    return prune_by_entropy(large, threshold=entropy, ngrams=to_ngrams, histories=weights, progress=progress)
