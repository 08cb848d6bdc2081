"""chainrule train translation: a model of one text given another is trained on pairs."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TokenizerOptions,
    file_or_dash,
)
from chainrule.cli.ended_run import data_differences, say_that_it_has_ended
from chainrule.cli.flags import flags_of, given_of
from chainrule.cli.models import check_model_target, is_model, save_or_keep
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.train_neural import AS_RECOMMENDED, Resume, TrainingFlags
from chainrule.cli.training_screen import TrainingScreen, note_untrained, validated_on
from chainrule.errors import SettingError
from chainrule.neural.config.conditional import ConditionalConfig
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.text.pairs import Pairs

    class ConditionalFlags:
        """All fields may be left out."""
else:
    ConditionalFlags = flags_of(ConditionalConfig)

AS_SET = ConditionalFlags()
_FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)


def translation(
    *,
    source: Annotated[str | None, _FILE, Parameter(help="The given texts, one a line.")] = None,
    target: Annotated[str | None, _FILE, Parameter(help="What is to be written from each of them, one a line.")] = None,
    pairs: Annotated[
        str | None,
        _FILE,
        Parameter(help="Both in one file: with a tab between them, or as fields of JSON lines (.jsonl)."),
    ] = None,
    source_field: Annotated[str, Parameter(help="Of JSON lines: the given text.")] = "source",
    target_field: Annotated[str, Parameter(help="Of JSON lines: what is to be written.")] = "target",
    valid: Annotated[
        tuple[str, ...],
        Parameter(
            help="Pairs to choose the best weights by: a source and a target file, or one of pairs; by default the end "
            "of the training pairs.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    output: Output,
    resume: Resume = False,
    training: TrainingFlags = AS_RECOMMENDED,
    network: ConditionalFlags = AS_SET,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    source_tokenizer: Annotated[
        str | None,
        Parameter(
            help="Cut sources by another tokenizer than targets, of the same --vocabulary-size; by default one is "
            "learnt from both."
        ),
    ] = None,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """A model of one text given another: translations, summaries, corrections.

    An encoder reads the source; a decoder writes the target and looks at the
    source by attention. A step has as many tokens as --batch pairs of middling
    length; the default tokenizer is bpe. Checkpoints and log.jsonl are kept
    in the folder while it is trained; Ctrl-C keeps all, and --resume goes on.
    """
    from chainrule.api.pair_model import FAMILY
    from chainrule.api.train_pairs import train_pairs
    from chainrule.base.memory import peak_memory
    from chainrule.training.folder import is_first_process, is_unfinished, remove_checkpoints

    if resume and overwrite:
        raise SettingError("--resume goes on with a run and --overwrite begins anew; say one of them")
    goes_on = resume and is_unfinished(output)
    config, fields, said = ConditionalConfig(**given_of(network)), (source_field, target_field), given_of(training)
    if resume and not goes_on and is_model(output):

        def others(before: dict[str, Any]) -> list[str]:
            with progress() as told:
                return data_differences(before, _pairs(source, target, pairs, fields, told).record)

        say_that_it_has_ended(output, FAMILY, asdict(config), said, others, json=json)
        return
    replaces = overwrite or goes_on
    check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress() as told:
        learnt = _pairs(source, target, pairs, fields, told)
        held = None if not valid else _held(valid, fields, told)
        by_pairs = tokenizer if tokenizer.tokenizer is not None else replace(tokenizer, tokenizer="bpe")
        own = None if source_tokenizer is None else replace(by_pairs, tokenizer=source_tokenizer).config()
        screen = TrainingScreen(told.close)
        model = train_pairs(
            learnt,
            config,
            tokenizer=by_pairs.config(),
            source_tokenizer=own,
            markers=markers,
            training=TrainingConfig(**said),
            validation=held,
            folder=output,
            resume=resume,
            overwrite=overwrite,
            told=screen,
            progress=told,
        )
        screen.close()
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=replaces, told=told)
    remove_checkpoints(output)
    _note_left_out(model.record)
    summary = {"model": str(output), "total_seconds": time.perf_counter() - began, "peak_memory_bytes": peak_memory()}
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _pairs(source: str | None, target: str | None, pairs: str | None, fields: tuple[str, str], told: Progress) -> Pairs:
    """Raises TextError; CycloptsError where it is not said, or said twice, what to learn from."""
    from chainrule.text.pairs import pairs_of

    if pairs is not None:
        if source is not None or target is not None:
            raise CycloptsError(msg="--pairs has both sides; leave out --source and --target.")
        return pairs_of([pairs], fields, told)
    if source is None or target is None:
        missing = " and ".join(name for name, given in (("--source", source), ("--target", target)) if given is None)
        raise CycloptsError(msg=f"{missing} is missing; or give --pairs, a file with both sides.")
    return pairs_of([source, target], fields, told)


def _held(valid: tuple[str, ...], fields: tuple[str, str], told: Progress) -> Pairs:
    from chainrule.text.pairs import pairs_of

    if len(valid) > 2:
        raise CycloptsError(msg=f"--valid takes a source and a target file, or one of pairs, not {len(valid)} files.")
    return pairs_of(list(valid), fields, told)


def _note_left_out(record: dict[str, Any]) -> None:
    reasons = {"left_out": "one side of which is empty", "too_long": "whose source is longer than the model reads"}
    for name, why in reasons.items():
        if record.get(name):
            note(f"{record[name]:,} pairs were left out, {why}")


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    print(f"{summary['model']}: model of pairs, of {record['parameters']:,} parameters")
    speed = record["tokens_seen"] / max(record["training_seconds"], 1e-9)
    print(
        f"{record['steps']:,} steps, {record['tokens_seen']:,} target tokens of {record['tokens']:,} in "
        f"{record['documents']:,} pairs, in {record['training_seconds']:.1f} s of training: {speed:,.0f} tokens/s"
    )
    if "validation" in record:
        found = record["validation"]
        print(
            f"validation: {found['loss']:.4f} nats a token on {validated_on(found)} of {found['pairs']:,} pairs, "
            f"best after step {found['step']:,}"
        )
        note_untrained(found)
