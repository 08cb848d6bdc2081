"""The verbs prune (makes an n-gram model smaller) and mix (mixes several models into one)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import check_model_target, open_model, save_or_keep
from chainrule.cli.shared.options import (
    Json,
    ModelMarkerRule,
    ModelOutput,
    ModelPath,
    ModelTokenizerName,
    Number,
    Overwrite,
    TextFile,
    WholeNumber,
    given_flags,
    refuse,
)
from chainrule.cli.shared.parts import flags_of_parts, parts_of, with_flags
from chainrule.cli.shared.results import ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, note_repairs, text_for
from chainrule.errors import SettingError
from chainrule.mixture.config import CacheConfig, GateKind, Kind, MixtureConfig
from chainrule.verbs.edited_models import MixedModel, PrunedModel

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.models.model import Model


def prune(
    model: ModelPath,
    /,
    *,
    output: ModelOutput,
    entropy: Annotated[
        float | None,
        Number,
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

    Prunes by relative entropy (Stolcke 1998), to a number of n-grams, to a
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
    if reading != DEFAULT_READING and for_text is None and histories in _NO_TEXT:
        raise CycloptsError(msg="The options that say how to read texts are for --for-text, or a text as --histories.")
    check_model_target(output, overwrite=overwrite, ngrams=True)
    began = time.perf_counter()
    with progress_bar() as progress:
        large = open_model(model, tokenizer, markers, progress)
        was_pruned = bool(large.record.get("pruned")) or any(large.record.get("settings", {}).get("prune", ()))
        if histories == "discounts" and (entropy or to_ngrams) and was_pruned:
            note(
                "the model was pruned before, so its discounts say little about its counts; --histories with its "
                "training text gives better results"
            )
        small = _prune(large, model, entropy, to_ngrams, vocabulary, for_text, histories, reading, progress)
        save_or_keep(small, output, overwrite=overwrite, progress=progress)
    ResultOptions(json=json).show(PrunedModel(output, small.record, time.perf_counter() - began))


_NO_TEXT = ("discounts", "chain")  # --histories that are no text


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
    from chainrule.verbs.prune import prune_by_entropy, prune_to_text, prune_to_vocabulary

    if vocabulary is not None:
        return prune_to_vocabulary(large, vocabulary, progress)
    if for_text is not None:
        source = text_for([path], reading, for_text)
        small = prune_to_text(large, source, progress)
        note_repairs(source)
        return small
    weights = histories if histories in _NO_TEXT else text_for([path], reading, histories)
    return prune_by_entropy(large, threshold=entropy, ngrams=to_ngrams, histories=weights, progress=progress)


_EXCHANGED = 2  # a network on a known distribution, and another one
_PARTS = parts_of("mix")  # each changes the models before they are mixed


@with_flags(flags_of_parts(_PARTS))
def mix(
    *models: Annotated[Path, Parameter(help="Models of any kind that continues texts.", required=True)],
    output: ModelOutput,
    tune: Annotated[
        TextFile | None, Parameter(help="Choose the weights that make this held-out text likeliest.")
    ] = None,
    weights: Annotated[
        tuple[float, ...],
        Number,
        Parameter(
            help="A weight for each model, the cache last: 0.7 0.3. In a linear mixture they must sum to 1.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    kind: Annotated[
        Kind, Parameter(help="A weighted sum of probabilities, or a weighted product, normalised.")
    ] = "linear",
    buckets: Annotated[
        int,
        WholeNumber,
        Parameter(help="Separate weights for this many classes of the previous token, by its frequency."),
    ] = 1,
    adaptive: Annotated[
        bool,
        Parameter(negative=(), help="With --tune, in a linear mixture: weights that depend on the context, by a gate."),
    ] = False,
    gate: Annotated[
        GateKind,
        Parameter(
            help="With --adaptive: what the gate reads: evidence: how well each model predicted the last tokens, and "
            "what it has seen of the context; distributions: also the models' distributions; by default these "
            "where they help, up to 1,024 tokens."
        ),
    ] = "default",
    cache: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Add a cache of this many previous tokens of the document, such as 500."),
    ] = None,
    cache_order: Annotated[
        int,
        WholeNumber,
        Parameter(help="With --cache: count n-grams up to this order among them, such as 6."),
    ] = 1,
    static: Annotated[
        bool, Parameter(negative=(), help="Merge n-gram models into one n-gram model; vocabularies may differ.")
    ] = False,
    exchange: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Put the second model, of n-grams, in place of the one whose residual the first was trained on.",
        ),
    ] = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
    flags: dict[str, Any],
) -> None:
    """Mix models that share a tokenizer and vocabulary into one.

        $ chainrule mix lm/ transformer/ -o mix/ --tune heldout.txt

    Of one network, --dynamic, --neural-cache and --neighbours make a model that
    learns or remembers as it reads.

    Models may be of any family, mixtures included. The result is a model like
    any other: a folder that holds all of them. Without --tune and --weights,
    all have the same weight. To train a model with the vocabulary of another,
    use --tokenizer OTHER/. Choose the vocabulary of the text that is more like
    the text to be read, since words that it lacks are spelled out.

    With --static, n-gram models become one n-gram model that interpolates them
    for every n-gram that any of them has. A word that a model lacks gets
    nothing from that model; its <unk> keeps what it has.

    With --exchange, a network that was trained with --residual-of gets the
    n-gram model of another domain, and nothing is trained.

    A log-linear mixture is normalised over the whole vocabulary at each token:
    it is slow, and its weights are tuned on a part of the text.
    """
    from chainrule.storage.sources import local_path
    from chainrule.verbs.mix import exchange as exchange_known
    from chainrule.verbs.mix import merge
    from chainrule.verbs.mix import mix as mix_models

    changes = {name: own for name, own in flags.items() if given_flags(own)}
    given = {"kind": kind != "linear", "buckets": buckets != 1, "cache": cache is not None, "adaptive": adaptive}
    others = [name for name, is_given in given.items() if is_given]
    others += [flag for own in changes.values() for flag in given_flags(own)]
    if static:
        refuse(others, "does not go with --static, which is for linear mixtures of n-gram models alone")
    if cache_order != 1 and cache is None:
        raise CycloptsError(msg="--cache-order is for a cache; say how many tokens it keeps: --cache 10000.")
    if adaptive and tune is None:
        raise CycloptsError(msg="--adaptive learns its weights from a held-out text; give one: --tune heldout.txt.")
    if gate != "default" and not adaptive:
        raise CycloptsError(msg="--gate is for weights that depend on the context; give --adaptive, too.")
    if exchange and (others or tune or weights or static):
        raise CycloptsError(msg="--exchange keeps the weights of the first model; leave other options out.")
    if exchange and len(models) != _EXCHANGED:
        raise CycloptsError(msg="--exchange takes a model that --residual-of has made, and an n-gram model.")
    if tune is not None and weights:
        raise CycloptsError(msg="Give either --tune or --weights.")
    if tune is None and reading != DEFAULT_READING and not changes:
        raise CycloptsError(msg="The options that say how to read texts are for --tune, which is missing.")
    is_alone = len(models) == 1 and cache is None and bool(changes)
    if is_alone and (kind != "linear" or buckets != 1 or adaptive or weights):
        raise CycloptsError(msg=f"{models[0]} is one model; --kind, --buckets, --adaptive and --weights mix several.")
    config = MixtureConfig(kind=kind, weights=tuple(weights) or None, buckets=buckets, adaptive=adaptive, gate=gate)
    cached = None if cache is None else CacheConfig(words=cache, order=cache_order)
    heldout = None if tune is None else text_for(models, reading, tune)
    real = [path.resolve() for path in models]
    if twice := next((path for path in reversed(models) if real.count(path.resolve()) > 1), None):
        raise SettingError(f"{twice} is named twice; name each model once, and set how much it counts with --weights")
    if len(models) > 1 and output.resolve() in real:
        raise SettingError(f"{output} is one of the models that are mixed; write the mixture elsewhere")
    check_model_target(output, overwrite=overwrite, ngrams=static)
    began = time.perf_counter()
    with progress_bar() as progress:
        parts = [
            open_model(path, tokenizer if local_path(path).is_file() or len(models) == 1 else None, markers, progress)
            for path in models
        ]
        names = [str(path) for path in models]
        read = {"names": names, "paths": models, "reading": reading, "heldout": heldout, "progress": progress}
        for name, own in changes.items():
            parts = _PARTS[name].run(own, parts, **read)
        if is_alone:
            [model] = parts
        elif exchange:
            model = exchange_known(*parts, names=names)
        elif static:
            model = merge(parts, config.weights, heldout=heldout, names=names, progress=progress)
        else:
            model = mix_models(parts, config, heldout=heldout, cache=cached, names=names, progress=progress)
        save_or_keep(model, output, overwrite=overwrite, progress=progress)
    if heldout is not None:
        note_repairs(heldout)
    mixed = MixedModel(
        output,
        "log-linear" if exchange else kind,
        model.record,
        time.perf_counter() - began,
        {name: part.record.get("data", {}) for name, part in zip(names, parts, strict=True)},
        is_static=static,
        has_weights=bool(weights) or exchange or (is_alone and tune is None),
    )
    ResultOptions(json=json).show(mixed)
