"""chainrule train NETWORK: a network is trained, and tells how it goes.

The flags are the fields of the configurations, with their help; nothing here imports torch before the work begins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TextFiles,
    TokenizerOptions,
    file_or_dash,
)
from chainrule.cli.embed import NetworkPath
from chainrule.cli.ended_run import say_that_it_has_ended, text_differences
from chainrule.cli.flags import flags_of, given_of
from chainrule.cli.models import check_model_target, is_model, save_or_keep
from chainrule.cli.screen import print_json, progress
from chainrule.cli.texts import (
    AS_USUAL,
    NOT_MIXED,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
    text_for,
    with_shares,
)
from chainrule.cli.training_screen import TrainingScreen, note_untrained, validated_on
from chainrule.errors import SettingError
from chainrule.neural.config import NETWORKS, TWO_SIDED, TransformerConfig, settings_of
from chainrule.neural.config import preset as preset_named
from chainrule.training.config import TrainingConfig
from chainrule.training.options import vectors_name
from chainrule.training.resume_check import differences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig
_KEPT = """Checkpoints and log.jsonl are kept in the folder while it is trained;
Ctrl-C keeps all, and --resume goes on, also after the process was killed."""


if TYPE_CHECKING:

    class TransformerFlags:
        """All fields may be left out."""

    class TrainingFlags:
        """All fields may be left out."""
else:
    TransformerFlags = flags_of(TransformerConfig)
    TrainingFlags = flags_of(TrainingConfig)

AS_RECOMMENDED, PRESET_ALONE = TrainingFlags(), TransformerFlags()

Preset = Annotated[
    Literal["vaswani", "gpt2", "palm", "llama", "modern"],
    Parameter(help="The choices of a known architecture; flags change single ones."),
]
ValidationFile = Annotated[
    str | None,
    Parameter(
        help="A text to choose the best weights by, and to show how it goes; by default the end of the training text.",
        allow_leading_hyphen=True,
        validator=file_or_dash,
    ),
]
Resume = Annotated[
    bool,
    Parameter(
        negative=(), help="Go on from the checkpoint in the folder, with the same settings; begin if it has none."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """What the vectors of tokens begin as."""

    vectors: Annotated[
        str | None,
        Parameter(
            help="Word vectors that those of tokens begin as: a file of word2vec, text or binary, or of GloVe, "
            "also compressed.",
            allow_leading_hyphen=True,
            validator=file_or_dash,
        ),
    ] = None
    fixed_vectors: Annotated[
        bool, Parameter(negative=(), help="The vectors of tokens are not trained, but stay as they begin.")
    ] = False

    @property
    def name(self) -> str | None:
        """As a model's record has it."""
        return None if self.vectors is None else vectors_name(self.vectors, fixed=self.fixed_vectors)


LEARNT = VectorOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a network of any family is trained, and on what."""

    valid: ValidationFile = None
    resume: Resume = False
    training: TrainingFlags = AS_RECOMMENDED
    markers: MarkerRule = "error"
    reading: TextOptions = AS_USUAL
    mixing: MixOptions = NOT_MIXED
    overwrite: Overwrite = False
    json: Json = False


AS_SAID = RunOptions()


def transformer(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    preset: Preset = "modern",
    network: TransformerFlags = PRESET_ALONE,
    beginning: VectorOptions = LEARNT,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    run: RunOptions = AS_SAID,
) -> None:
    """A Transformer: a network that looks back by attention.

    Each choice of the field's history is a setting; --preset makes all of
    them at once, as a known architecture did.

    Checkpoints and log.jsonl are kept in the folder while it is trained;
    Ctrl-C keeps all, and --resume goes on, also after the process was killed.
    """
    _train(texts, preset_named(preset, **given_of(network)), output, run, tokenizer, beginning)


def _verb(config: type[NetworkConfig]) -> Callable[..., None]:
    """chainrule train, of a family that is set by this configuration; its docstring is the verb's help."""
    flags = flags_of(config)
    by_default = flags()

    def train_family(
        *texts: Annotated[TextFiles, Parameter(required=False)],
        output: Output,
        network: Any = by_default,
        beginning: VectorOptions = LEARNT,
        tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
        run: RunOptions = AS_SAID,
    ) -> None:
        _train(texts, config(**given_of(network)), output, run, tokenizer, beginning)

    train_family.__annotations__["network"] = flags
    train_family.__doc__ = f"{getdoc(config)}\n\n{_KEPT}"
    return train_family


def __getattr__(name: str) -> Callable[..., None]:
    """chainrule train NETWORK, by the family's name with underscores: made when it is asked for."""
    family = name.replace("_", "-")
    if family not in (networks := {**NETWORKS, **TWO_SIDED}):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _verb(networks[family])


def adapt(
    model: NetworkPath,
    /,
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    run: RunOptions = AS_SAID,
) -> None:
    """Go on with the training of a network, on other text.

    A new model is written; its configuration and tokenizer are those of the
    old one, and words that this did not know stay unknown.

    Checkpoints and log.jsonl are kept in the folder while it is trained;
    Ctrl-C keeps all, and --resume goes on, also after the process was killed.
    """
    from chainrule.api.adapt import network_config_of

    config = network_config_of(model)
    names = texts or tuple(name for name, _ in with_shares("--mix", run.mixing.mix))
    if names:
        document = text_for([model], run.reading, *names).reading.document
        run = replace(run, reading=replace(run.reading, document=document))
    _train(texts, config, output, run, TokenizerOptions(tokenizer=str(model)), LEARNT, start=model)


def _train(
    texts: tuple[str, ...],
    config: NetworkConfig,
    output: Path,
    run: RunOptions,
    tokenizer: TokenizerOptions,
    beginning: VectorOptions,
    *,
    start: Path | None = None,
) -> None:
    from chainrule.api.train import train
    from chainrule.base.memory import peak_memory
    from chainrule.families import family_of
    from chainrule.training.folder import is_first_process, is_unfinished, remove_checkpoints

    check_read_once(*texts, run.valid)
    source, training = run.mixing.source(texts, run.reading), given_of(run.training)
    if run.resume and run.overwrite:
        raise SettingError("--resume goes on with a run and --overwrite begins anew; say one of them")

    def others(before: dict[str, Any]) -> list[str]:
        vectors = differences({"vectors": before.get("vectors")}, {"vectors": beginning.name})
        return vectors + text_differences(before, source, tokenizer.config())

    goes_on = run.resume and is_unfinished(output)
    if run.resume and not goes_on and is_model(output):
        say_that_it_has_ended(output, family_of(config), settings_of(config), training, others, json=run.json)
        return
    replaces = run.overwrite or goes_on  # a run that goes on was begun with leave to replace what is there
    check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress() as told:
        screen = TrainingScreen(told.close)
        model = train(
            source,
            config,
            tokenizer=tokenizer.config(),
            markers=run.markers,
            training=TrainingConfig(**training),
            validation=None if run.valid is None else run.reading.corpus(run.valid),
            folder=output,
            resume=run.resume,
            overwrite=run.overwrite,
            told=screen,
            progress=told,
            vectors=beginning.vectors,
            fixed_vectors=beginning.fixed_vectors,
            start=start,
        )
        screen.close()
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=replaces, told=told)
    remove_checkpoints(output)
    note_repairs(source)
    note_mix(source)
    summary = {
        "model": str(output),
        "vocabulary": model.vocabulary_size,
        "bytes": sum(path.stat().st_size for path in output.iterdir()),
        "total_seconds": time.perf_counter() - began,
        "peak_memory_bytes": peak_memory(),
    }
    if run.json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    print(
        f"{summary['model']}: {record['family']} model of {record['parameters']:,} parameters, "
        f"vocabulary {summary['vocabulary']:,}"
    )
    speed = record["tokens_seen"] / max(record["training_seconds"], 1e-9)
    print(
        f"{record['steps']:,} steps, {record['tokens_seen']:,} tokens of a text of {record['tokens']:,}, "
        f"in {record['training_seconds']:.1f} s of training: {speed:,.0f} tokens/s"
    )
    if "validation" in record:
        found = record["validation"]
        bits = f", {found['bits_per_byte']:.4f} bits per byte" if "bits_per_byte" in found else ""
        print(
            f"validation: {found['loss']:.4f} nats a token{bits} on {validated_on(found)}, "
            f"best after step {found['step']:,}"
        )
        note_untrained(found)
    memory = summary["peak_memory_bytes"]
    told_memory = f", {memory / 1e9:.2f} GB of memory at most" if memory else ""
    print(f"{summary['bytes'] / 1e6:,.1f} MB, {summary['total_seconds']:.1f} s{told_memory}")
