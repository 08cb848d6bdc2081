"""Models measured on one held-out text, in one table: all families trained on the same tokens, or saved models."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.decoding.config import Limits
from chainrule.errors import EstimationError, SettingError, prefix_errors
from chainrule.features.compare.comparison import Comparison, Contender
from chainrule.kinds import CAUSAL_NETWORK, configs_of
from chainrule.mixture.config import MixtureConfig
from chainrule.mixture.uniform import UniformConfig, UniformModel
from chainrule.models.any_model import check_kind
from chainrule.models.families.table import FAMILIES, family_of
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.language_models import CausalModel, CausalNetwork
from chainrule.models.run import record_header
from chainrule.neural.config import RecurrentConfig
from chainrule.ngram.config import NGramConfig
from chainrule.protocol import END
from chainrule.training.config import TrainingConfig, TrainingRun
from chainrule.training.job import StreamOptions
from chainrule.verbs.mix import mix
from chainrule.verbs.training.residual import Known, join_known, known_distribution
from chainrule.verbs.training.stream import read_validation, train_speller

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.evaluation.measurement import Measurement
    from chainrule.models.model import Model
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.network import OutputKind
    from chainrule.ngram.speller import Speller
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.build import Tokenized
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers
    from chainrule.training.reports import Report

    Curve = tuple[tuple[float, float], ...]

# Fields of a record, besides settings and texts, that make a different model, not another random draw of the same one.
_DISTINGUISHING = (
    "tokenizer",
    "reading",
    "part_of",
    "mix",
    "vectors",
    "start",
    "teacher",
    "teacher_weight",
    "teacher_temperature",
    "teacher_tokens",
    "validated_on",
    "tuned_on",
    "pruned",
    "quantised",
)


def compare_models(
    models: Iterable[tuple[str, Model]], source: Source, progress: Progress = silent, *, ends: bool = True
) -> Comparison:
    """Measure named models one after the other; an iterator may open each only when it is needed.

    The source is read once for each model. ends: whether </s> is predicted, and counted as a token. Raises TextError;
    SettingError if there is no model.
    """
    contenders = []
    for name, model in models:
        with prefix_errors(name):
            contenders.append(_saved_contender(name, model, source, progress, ends=ends))
    return Comparison(contenders)


def parameters_of(model: Model) -> int | None:
    """Return how many n-grams or weights a model has; None if its record does not say."""
    weights, ngrams = model.record.get("parameters"), model.record.get("ngrams")
    return weights if ngrams is None else sum(ngrams)


def size_of(model: Model) -> int | None:
    """Return the bytes of a model's arrays in its folder, without those of the tokenizer and the speller.

    None if the model cannot be saved, as a probing binary of KenLM.
    """
    try:
        _, arrays = FAMILIES[model.family].to_state(model.language_model)
    except SettingError:
        return None
    return sum(array.nbytes for array in arrays.values())


def _saved_contender(name: str, model: Model, source: Source, progress: Progress, *, ends: bool) -> Contender:
    return Contender(
        name=name,
        family=model.family,
        measurement=check_kind(model, CausalModel).evaluate(source, progress, ends=ends),
        train_seconds=model.record.get("seconds"),
        parameters=parameters_of(model),
        configuration=_configuration(model),
        seed=model.record.get("training", {}).get("seed"),
        size=size_of(model),
        record=model.record,
    )


def _configuration(model: Model) -> str | None:
    """Return a string that is the same for models that differ only in their seeds; None if the record does not say.

    Models of different texts, of the same text read differently, or changed after training have different
    configurations: they do not differ by chance.
    """
    record = model.record
    if "settings" not in record or "data" not in record:
        return None
    texts = sorted(map(str, record["data"].values()))
    training = {name: value for name, value in record.get("training", {}).items() if name != "seed"}
    others = {name: record.get(name) for name in _DISTINGUISHING}
    return json.dumps(
        [model.family, record["settings"], model.tokenizer.name, texts, training, others], sort_keys=True, default=str
    )


NAMES = {1: "unigram", 2: "bigram", 3: "trigram"}
# By family: the networks by name, with settings beside these; other families have one, of their own name.
_VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "recurrent": {
        "RNN": {"cell": "rnn_tanh"},
        "LSTM": {"cell": "lstm"},
    },
    "grid": {},  # it reads pictures
}
RESIDUAL = "LSTM on the residual"
LARGE_VOCABULARY = 5000  # tokens; above, a full softmax would take most of the time
LEAST_WEIGHT = 0.01  # of a model that stays in the mixture
SAMPLES, SAMPLE_TOKENS, SEED = 3, 30, 1


@dataclass(frozen=True)
class Networks:
    """The budget of each network, and the text by which their best weights and those of the mixture are chosen."""

    minutes: float
    validation: Source


@dataclass(frozen=True)
class _Rung:
    """A trained model of the ladder. seconds: the time of its training. curve, level: as in `Contender`."""

    name: str
    model: CausalModel
    seconds: float
    parameters: int | None
    curve: Curve = ()
    level: float | None = None


def run_ladder(
    train: Source,
    heldout: Source,
    *,
    order: int = 5,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    networks: Networks | None = None,
    families: Sequence[str] | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare uniform, n-grams of orders 1 to `order`, networks of every family, an LSTM on the residual of the best
    n-grams where the vocabulary is small, and mixtures of the networks with the best n-grams.

    networks: None for no networks and no mixtures. families: those to compare, without the LSTM on the residual; None
    for all. Each model is trained from token ids by itself, so that its seconds are its own, and measured before the
    next one is trained. Raises TextError, SettingError, EstimationError.
    """
    configs = [NGramConfig(order=n) for n in range(1, NGramConfig(order=order).order + 1)]
    check_families(families, has_minutes=networks is not None)
    tokens = tokenize_source(train, tokenizer, markers, progress)
    frequencies = np.bincount(tokens.stream, minlength=tokens.tokenizer.vocabulary_size)
    _compile_kernels()
    contenders: list[Contender] = []
    for rung in _rungs(tokens, configs, networks, families, progress):
        measurement = rung.model.evaluate(heldout, progress, frequencies=frequencies)
        check_overlap(measurement, heldout)
        contenders.append(_contender(rung, measurement, progress))
    return Comparison(contenders)


def check_families(families: Sequence[str] | None, *, has_minutes: bool) -> None:
    """Raise SettingError where a family cannot be compared, or is one of networks and no minutes are set."""
    if families is None:
        return
    networks = [name for name in configs_of(CAUSAL_NETWORK) if _VARIANTS.get(name) != {}]
    known = ["uniform", "ngram", *networks]
    for name in families:
        if name not in known:
            raise SettingError(f"families is {name!r}; expected some of {', '.join(known)}")
        if name in networks and not has_minutes:
            raise SettingError(f"families is {name!r}, a network; set minutes, such as minutes=2, its time of training")
    if not families:
        raise SettingError(f"families is empty; expected some of {', '.join(known)}")


def check_overlap(measurement: Measurement, heldout: Source) -> None:
    """Raise EstimationError if no token of a held-out text occurs in the training text: figures would mean nothing."""
    if measurement.oov == measurement.tokens - measurement.documents:
        raise EstimationError(
            f"{', '.join(heldout.sources)}: none of its tokens occurs in the training text, so models cannot be "
            "compared on it; expected texts of one language"
        )


def _contender(rung: _Rung, measurement: Measurement, progress: Progress) -> Contender:
    model, limits = rung.model, Limits(max_tokens=SAMPLE_TOKENS)
    return Contender(
        name=rung.name,
        family=model.family,
        measurement=measurement,
        train_seconds=rung.seconds,
        parameters=rung.parameters,
        size=size_of(model),
        curve=rung.curve,
        level=rung.level,
        samples=tuple(model.generate("", SAMPLES, limits=limits, seed=SEED, progress=progress)),
        record=model.record,
    )


def _rungs(
    tokens: Tokenized,
    configs: list[NGramConfig],
    networks: Networks | None,
    families: Sequence[str] | None,
    progress: Progress,
) -> Iterator[_Rung]:
    """Yield the models, each yielded when it is trained."""
    learner = tokens.tokenizer
    speller = train_speller(  # the same for every rung
        learner, tokens.stream, UniformConfig(), tokens.left_out, tokens.literal_unknowns
    )
    if families is None or "uniform" in families:
        yield _Rung(
            "uniform", CausalModel("uniform", UniformModel(learner.vocabulary_size), learner, {}, speller), 0.0, 0
        )
    best: _Rung | None = None  # of the n-gram models, for the mixture
    for config in configs if families is None or "ngram" in families else ():
        rung = _train_ngrams(tokens, config, speller, networks, progress)
        if best is None or (rung.level or 0.0) < (best.level or 0.0):
            best = rung
        yield rung
    if networks is None:
        return
    training = TrainingConfig(minutes=networks.minutes)
    validation = read_validation(networks.validation, learner, training, lambda: speller, progress)
    components = [] if best is None else [best]
    words = tuple(learner.vocabulary.tokens())
    options = StreamOptions(training=training, validation=validation, tokens=words)
    for name, network in networks_for(learner.vocabulary_size, families):
        components.append(_train_network(name, tokens, network, speller, options, progress))
        yield components[-1]
    if families is None and best is not None and learner.vocabulary_size <= LARGE_VOCABULARY:
        yield _train_residual(tokens, NGramConfig(**best.model.record["settings"]), speller, options, progress)
    if len(components) > 1:
        yield from _mix_best(components, networks.validation, progress)


def networks_for(vocabulary_size: int, families: Sequence[str] | None = None) -> Iterator[tuple[str, NetworkConfig]]:
    """Yield every family of networks that reads texts, or those named, of a size that its minutes choose; the recurrent
    one with and without gates.
    """
    output: OutputKind = "adaptive" if vocabulary_size > LARGE_VOCABULARY else "full"
    for family, kind in configs_of(CAUSAL_NETWORK).items():
        if families is not None and family not in families:
            continue
        for name, settings in _VARIANTS.get(family, {family: {}}).items():
            yield name, kind(output=output, **settings)


def _train_ngrams(
    tokens: Tokenized, config: NGramConfig, speller: Speller, networks: Networks | None, progress: Progress
) -> _Rung:
    from chainrule.ngram.training import train_ngram

    start = time.perf_counter()
    language_model, learned = train_ngram(tokens.stream, tokens.tokenizer.vocabulary_size, config, progress)
    seconds = time.perf_counter() - start
    model = CausalModel(
        "ngram", language_model, tokens.tokenizer, {**record_header("ngram", config), **learned}, speller
    )
    level = None if networks is None else model.evaluate(networks.validation, progress).bits_per_byte
    name = NAMES.get(config.order, f"{config.order}-gram")
    return _Rung(name, model, seconds, parameters_of(model), level=level)


def _train_network(
    name: str,
    tokens: Tokenized,
    config: NetworkConfig,
    speller: Speller,
    options: StreamOptions,
    progress: Progress,
    run: TrainingRun | None = None,
) -> _Rung:
    points: list[tuple[float, float]] = []
    progress(f"training {name}", 0, None)

    def on_report(report: Report) -> None:
        progress(f"training {name}", report.step, report.steps)
        if report.bits_per_byte is not None:
            if points and report.seconds < points[-1][0]:  # the run has begun again, with another size
                points.clear()
            points.append((report.seconds, report.bits_per_byte))

    family = family_of(config)
    language_model, learned = FAMILIES[family].train(
        tokens.stream,
        tokens.tokenizer.vocabulary_size,
        config,
        progress,
        options=options,
        run=replace(run or TrainingRun(), on_report=on_report),
    )
    model = CausalNetwork(
        family,
        language_model,
        tokens.tokenizer,
        {**record_header(family, language_model.network.config), **learned},  # of the size chosen
        speller,
    )
    return _Rung(name, model, learned["training_seconds"], parameters_of(model), tuple(points))


def _train_residual(
    tokens: Tokenized, ngram: NGramConfig, speller: Speller, options: StreamOptions, progress: Progress
) -> _Rung:
    """Return an LSTM on the residual of an n-gram model, whose folds are a part of the minutes.

    It is no part of the mixture, which has both.
    """
    assert options.validation is not None
    run, size = TrainingRun(began=time.monotonic()), tokens.tokenizer.vocabulary_size
    given = Known(str(ngram.order), config=ngram)
    known, base = known_distribution(given, tokens.stream, options.validation.stream, size, progress)
    config = RecurrentConfig(cell="lstm")
    rung = _train_network(RESIDUAL, tokens, config, speller, replace(options, known=known), progress, run)
    families, weight = ("recurrent", given.family), rung.model.record["residual_weight"]
    mixture, settings = join_known(families, rung.model.language_model, base, weight)
    record = {**rung.model.record, "family": "mixture", "settings": asdict(settings), "residual_of": given.name}
    return replace(rung, model=CausalModel("mixture", mixture, tokens.tokenizer, record, speller))


def _mix_best(rungs: list[_Rung], validation: Source, progress: Progress) -> Iterator[_Rung]:
    """Yield mixtures of those models that have enough weight when all are mixed, at least two; their seconds are of
    all.

    First with constant weights, then with weights that depend on the context.
    """
    start = time.perf_counter()
    weights = _mixture(rungs, MixtureConfig(), validation, progress).record["weights"][0]
    least = min(LEAST_WEIGHT, sorted(weights)[-2])
    chosen = [rung for rung, weight in zip(rungs, weights, strict=True) if weight >= least]
    seconds, parameters = sum(rung.seconds for rung in rungs), sum(rung.parameters or 0 for rung in chosen)
    for name, config in (("mixture", MixtureConfig()), ("adaptive mixture", MixtureConfig(adaptive=True))):
        model = _mixture(chosen, config, validation, progress)
        yield _Rung(name, model, time.perf_counter() - start + seconds, parameters)


def _mixture(rungs: list[_Rung], config: MixtureConfig, validation: Source, progress: Progress) -> CausalModel:
    models, names = [rung.model for rung in rungs], [rung.name for rung in rungs]
    return mix(models, config, heldout=validation, names=names, progress=progress)


def _compile_kernels() -> None:
    """Train and query a tiny model, so that no row of the table pays for compiling or loading kernels."""
    from chainrule.ngram.training import train_ngram

    stream = np.array([3, END], np.int32)
    model, _ = train_ngram(stream, 4, NGramConfig(order=2))
    model.score([stream[:1]])
