"""chainrule train NETWORK and chainrule adapt: train a network and report progress.

The flags are the fields of the configurations, with their help. Torch is imported only when the work begins.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    Needs,
    NetworkPath,
    Output,
    Overwrite,
    Resume,
    TextFiles,
    TokenizerFlags,
    VectorFlags,
    flag,
    flags_of,
    given_settings,
    refuse,
    tokenizer_of,
    with_defaults,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    NO_MIX,
    MixOptions,
    TextOptions,
    check_read_once,
    note_mix,
    note_repairs,
    text_for,
)
from chainrule.cli.train.run_output import (
    continues_run,
    cost_line,
    note_untrained,
    report_finished_run,
    shown_run,
    summary_of,
    text_differences,
    validated_on,
)
from chainrule.kinds import CAUSAL_NETWORK, kinds, rows
from chainrule.models.run_options import VectorOptions
from chainrule.neural.config import MaskedConfig, TransformerConfig, settings_of
from chainrule.neural.config import preset as preset_named
from chainrule.text.tokenization.config import TokenizerConfig
from chainrule.training.config import AdapterConfig, TrainingConfig, differences
from chainrule.verbs.training.options import AdaptOptions, TeacherOptions, TrainOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig

_CHECKPOINTS = """Checkpoints and log.jsonl are kept in the folder during training. --resume
continues after Ctrl-C, or after the process was killed."""

Preset = Annotated[
    Literal["vaswani", "gpt2", "palm", "llama", "modern"],
    Parameter(help="The settings of a known architecture; other options override single ones."),
]
MaskedPreset = Annotated[
    Literal["bert"] | None,
    Parameter(
        help="bert: the settings of BERT, as which transformers can open it; other options override single ones."
    ),
]
ResidualOf = Annotated[str | None, flag(TrainOptions, "residual_of")]
TeacherFlags = Flags[TeacherOptions]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """How to train a network of any family, and on what."""

    valid: Annotated[str | None, flag(TrainOptions, "validation")] = None
    resume: Resume = False
    training: Flags[TrainingConfig] = NO_FLAGS
    markers: MarkerRule = "error"
    reading: TextOptions = DEFAULT_READING
    mixing: MixOptions = NO_MIX
    overwrite: Overwrite = False
    json: Json = False


DEFAULT_RUN = RunFlags()


def transformer(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    preset: Preset = "modern",
    network: Flags[TransformerConfig] = NO_FLAGS,
    beginning: VectorFlags = NO_FLAGS,
    residual_of: ResidualOf = None,
    teacher: TeacherFlags = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    run: RunFlags = DEFAULT_RUN,
) -> None:
    """A Transformer: a network that looks back by attention.

        $ chainrule train transformer corpus.txt -o transformer/ --minutes 5

    Every design choice since 2017 is a setting; --preset sets them all to those
    of a known architecture.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    config = preset_named(preset, **given_settings(network))
    _train(texts, config, output, run, tokenizer, beginning, residual_of=residual_of, teacher=teacher)


def masked(
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    preset: MaskedPreset = None,
    network: Flags[MaskedConfig] = NO_FLAGS,
    beginning: VectorFlags = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    run: RunFlags = DEFAULT_RUN,
) -> None:
    """A masked Transformer: bidirectional, and trained to fill in masked tokens.

        $ chainrule train masked corpus.txt -o masked/ --minutes 5

    As BERT (Devlin 2019) with masks that change at each step (Liu 2019).
    Texts are scored by pseudo-log-likelihood (Salazar 2020).

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    settings = given_settings(network)
    config = MaskedConfig(**settings) if preset is None else preset_named(preset, **settings)
    _train(texts, config, output, run, tokenizer, beginning)


def network_verb(name: str, config: Any, *, is_causal: bool) -> Callable[..., None]:
    """chainrule train NAME, whose settings are this configuration; its docstring is the verb's help."""
    summary, _, details = (getdoc(config) or "").partition("\n\n")
    text = "trees.conllu" if getattr(config, "reads", "text") == "tree" else "corpus.txt"
    example = f"    $ chainrule train {name} {text} -o {name}/ --minutes 5"

    def train_language_model(
        *texts: Annotated[TextFiles, Parameter(required=False)],
        output: Output,
        network: Any = NO_FLAGS,
        beginning: VectorFlags = NO_FLAGS,
        residual_of: ResidualOf = None,
        teacher: TeacherFlags = NO_FLAGS,
        tokenizer: TokenizerFlags = NO_FLAGS,
        run: RunFlags = DEFAULT_RUN,
    ) -> None:
        settings = config(**given_settings(network))
        _train(texts, settings, output, run, tokenizer, beginning, residual_of=residual_of, teacher=teacher)

    def train_other(
        *texts: Annotated[TextFiles, Parameter(required=False)],
        output: Output,
        network: Any = NO_FLAGS,
        beginning: VectorFlags = NO_FLAGS,
        tokenizer: TokenizerFlags = NO_FLAGS,
        run: RunFlags = DEFAULT_RUN,
    ) -> None:
        _train(texts, config(**given_settings(network)), output, run, tokenizer, beginning)

    train_family: Callable[..., None] = train_language_model if is_causal else train_other
    train_family.__annotations__["network"] = flags_of(config)
    train_family.__doc__ = "\n\n".join(part for part in (summary, example, details, _CHECKPOINTS) if part)
    return train_family


_NAMES = {"two-sided": "bidirectional"}  # by the family's name in files, where the verb has another


def __getattr__(name: str) -> Callable[..., None]:
    """chainrule train NETWORK, by the verb's name with underscores, built on first use."""
    verb = name.replace("_", "-")
    known = {_NAMES.get(family, family): kind for family, kind in kinds().items() if kind.configs}
    if verb not in known:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind = known[verb]
    return network_verb(verb, kind.configs[0].get(), is_causal=kind.model == CAUSAL_NETWORK)


def adapt(
    model: NetworkPath,
    /,
    *texts: Annotated[TextFiles, Parameter(required=False)],
    output: Output,
    adapter: Flags[AdapterConfig] = NO_FLAGS,
    preferred: Annotated[str | None, flag(AdaptOptions, "preferred")] = None,
    beta: Annotated[float, flag(AdaptOptions, "beta"), Needs("preferred")] = 0.1,
    teacher: TeacherFlags = NO_FLAGS,
    run: RunFlags = DEFAULT_RUN,
) -> None:
    """Continue training a network, on other text.

        $ chainrule adapt transformer/ letters.txt -o adapted/ --minutes 5
        $ chainrule adapt transformer/ letters.txt -o small/ --lora 8
        $ chainrule adapt transformer/ --preferred pairs.jsonl -o polite/

    Writes a new model with the configuration and tokenizer of the old one;
    words that are not in its vocabulary stay unknown. With --lora, only a
    low-rank adapter is trained, and the new model is a small folder that names
    the old one; convert merges both, or writes peft's folder.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    from chainrule.text.corpus.corpus import Corpus
    from chainrule.verbs.training.train import adapter_of, network_config_of

    adapters = adapter_of(AdapterConfig(**given_settings(adapter)))
    if preferred is not None:
        refuse(given_settings(teacher), "is for a text, not for --preferred")
        rows("adapt shell")["preferred"].get()(model, texts, preferred, beta, output, run, adapters)
        return
    config = network_config_of(model)
    names = texts or run.mixing.names
    if names:
        source = text_for([model], run.reading, *names, beside=[run.valid])
        document = source.reading.document if isinstance(source, Corpus) else "tree"
        run = replace(run, reading=run.reading.with_document(document))
    tokenizer = with_defaults(TokenizerConfig, NO_FLAGS, kind=str(model))
    _train(texts, config, output, run, tokenizer, NO_FLAGS, start=model, adapter=adapters, teacher=teacher)


def _train(
    texts: tuple[str, ...],
    config: Any,
    output: Path,
    run: RunFlags,
    tokenizer: TokenizerFlags,
    beginning: VectorFlags,
    *,
    start: Path | None = None,
    adapter: AdapterConfig | None = None,
    residual_of: str | None = None,
    teacher: TeacherFlags = NO_FLAGS,
) -> None:
    from chainrule.models.families.table import family_of
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints
    from chainrule.training.defaults import settings_left_open
    from chainrule.verbs.training.train import train

    check_read_once(*texts, run.valid)
    if config.reads == "tree":
        if not given_settings(tokenizer):
            tokenizer = with_defaults(TokenizerConfig, NO_FLAGS, kind="whitespace")
        run = replace(run, reading=run.reading.with_document(run.reading.of_document or "tree"))
    source, training = run.mixing.source(texts, run.reading, [run.valid]), given_settings(run.training)
    initial, learner = VectorOptions(**given_settings(beginning)), tokenizer_of(tokenizer)
    teachers = TeacherOptions(**given_settings(teacher))
    continues = continues_run(output, resume=run.resume, overwrite=run.overwrite)

    def other_changes(before: dict[str, Any]) -> list[str]:
        now: dict[str, object] = {"vectors": initial.name, "residual_of": residual_of, **teachers.teacher_record}
        changed = differences({name: before.get(name) for name in now}, now)
        adapted = before.get("adapter", {}).get("settings", {})
        changed += differences(adapted, {} if adapter is None else asdict(adapter))
        return changed + text_differences(before, source, learner)

    if run.resume and not continues and is_model(output):
        report_finished_run(
            output,
            family_of(config) if residual_of is None else "mixture",
            settings_of(config),
            training,
            other_changes,
            left_open=frozenset()
            if config.reads == "tree"
            else settings_left_open(cast("NetworkConfig", config), TrainingConfig(**training)),
            json=run.json,
        )
        return
    replaces = run.overwrite or continues  # a run that continues was started with permission to replace
    check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress_bar() as progress:
        with shown_run(progress, output, resume=run.resume, overwrite=run.overwrite) as options:
            model = train(
                source,
                config,
                tokenizer=learner,
                markers=run.markers,
                training=TrainingConfig(**training),
                validation=None
                if run.valid is None
                else run.reading.source(run.valid, beside=[*texts, *run.mixing.names]),
                start=start,
                adapter=adapter,
                residual_of=residual_of,
                **initial.given,
                **teachers.given,
                **options,
            )
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    note_repairs(source)
    note_mix(source)
    summary = summary_of(output, began, model.record, vocabulary=model.vocabulary_size)
    if run.json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def print_model(record: dict[str, Any], summary: dict[str, Any]) -> None:
    print(
        f"{summary['model']}: {record['family']} model of {record['parameters']:,} parameters, "
        f"vocabulary {summary['vocabulary']:,}"
    )
    if "adapter" in record:
        own = record["adapter"]
        print(f"an adapter of rank {own['rank']}, {own['parameters']:,} parameters, on {own['base']}")


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    print_model(record, summary)
    if "residual_of" in record:
        network, known = record["models"]
        weight = record["weights"][1]
        print(f"{network['family']} on the residual of {known['name']}, whose log-probabilities weigh {weight:.3f}")
    speed = record["tokens_seen"] / max(record["training_seconds"], 1e-9)
    print(
        f"{count_of(record['steps'], 'step')}, {record['tokens_seen']:,} tokens of a text of {record['tokens']:,}, "
        f"in {record['training_seconds']:.1f} s of training: {speed:,.0f} tokens/s"
    )
    if "validation" in record:
        validation = record["validation"]
        sample = validation["while_learning"]["read_tokens"]
        few = f" by validations on {sample:,} tokens" * (sample < validation["text_tokens"])
        best = f"best after step {validation['step']:,}{few}"
        print(f"validation: {_loss_of(validation)} on {validated_on(validation)}, {best}")
        if before := validation.get("before_learning"):
            best, read = validation["while_learning"]["loss"], before["read_tokens"]
            few = f" on {read:,} tokens, for which {best:.4f} is the best" * (read != validation["text_tokens"])
            print(f"before the first step: {_loss_of(before)}{few}")
            if best >= before["loss"]:
                note("no validation was better than before the first step; train longer, or give more text")
        if "next_sentence_accuracy" in validation:
            print(
                f"next sentence: {validation['next_sentence_accuracy']:.1%} of {count_of(validation['pairs'], 'pair')} "
                f"right, {validation['next_sentence_loss']:.4f} nats a pair"
            )
        note_untrained(record)
    print(cost_line(summary, record))


def _loss_of(figures: dict[str, Any]) -> str:
    bits = f", {figures['bits_per_byte']:.4f} bits per byte" if "bits_per_byte" in figures else ""
    return f"{figures['loss']:.4f} nats a token{bits}"
