"""chainrule train seq2seq: trains an encoder-decoder on pairs of texts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    Resume,
    TokenizerFlags,
    file_or_dash,
    flag,
    given_settings,
    refuse,
    tokenizer_of,
    with_defaults,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.cli.train.run_output import (
    continues_run,
    data_differences,
    note_untrained,
    report_finished_run,
    shown_run,
    validated_on,
)
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.train_options import TrainPairsOptions
from chainrule.neural.config import settings_of
from chainrule.text.parallel import FIELDS
from chainrule.text.tokenization.config import TokenizerConfig
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.text.corpus.bad_records import BadRecords
    from chainrule.text.parallel import Pairs

_FILE = Parameter(allow_leading_hyphen=True, validator=file_or_dash)


def seq2seq(
    *,
    source: Annotated[str | None, _FILE, Parameter(help="The source texts, one a line.")] = None,
    target: Annotated[str | None, _FILE, Parameter(help="The target texts, one a line.")] = None,
    pairs: Annotated[
        str | None,
        _FILE,
        Parameter(
            help="Both in one file: two columns with a tab between, fields of JSON lines, CSV or Parquet, or columns "
            "that the first line of a TSV names. Conversations, JSON lines with messages of role and content, are "
            "pairs, too: an answer, and all turns before it."
        ),
    ] = None,
    source_field: Annotated[str, Parameter(help="The field or column of --pairs with the source.")] = "source",
    target_field: Annotated[str, Parameter(help="The field or column of --pairs with the target.")] = "target",
    records: RecordFlags = NO_FLAGS,
    valid: Annotated[
        tuple[str, ...],
        Parameter(
            help="Validation pairs, to choose the best weights: a source and a target file, or one file of pairs; by "
            "default the end of the training pairs.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    output: Output,
    resume: Resume = False,
    training: Flags[TrainingConfig] = NO_FLAGS,
    network: Flags[Seq2SeqConfig] = NO_FLAGS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    source_tokenizer: Annotated[str | None, flag(TrainPairsOptions, "source_tokenizer")] = None,
    vectors: Annotated[str | None, flag(TrainPairsOptions, "vectors")] = None,
    source_vectors: Annotated[str | None, flag(TrainPairsOptions, "source_vectors")] = None,
    fixed_vectors: Annotated[bool, flag(TrainPairsOptions, "fixed_vectors")] = False,
    markers: MarkerRule = "error",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """An encoder-decoder for pairs of texts: translations, summaries, corrections.

        $ chainrule train seq2seq --pairs train.tsv -o mt/ --minutes 5

    An encoder reads the source; a decoder generates the target and attends to
    the source. A batch has as many tokens as --batch pairs of average length.
    The default tokenizer is bpe.

    Checkpoints and log.jsonl are kept in the folder during training. --resume
    continues after Ctrl-C, or after the process was killed.
    """
    from chainrule.base.memory import peak_memory
    from chainrule.features.seq2seq.model import FAMILY
    from chainrule.features.seq2seq.training import train_pairs
    from chainrule.models.run import seconds_since
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints

    continues = continues_run(output, resume=resume, overwrite=overwrite)
    config, fields, settings = (
        Seq2SeqConfig(**given_settings(network)),
        (source_field, target_field),
        given_settings(training),
    )
    if resume and not continues and is_model(output):

        def other_changes(before: dict[str, Any]) -> list[str]:
            with progress_bar() as progress, bad_records(records, "stop") as bad:
                return data_differences(before, _pairs(source, target, pairs, fields, progress, bad).record)

        report_finished_run(output, FAMILY, settings_of(config), settings, other_changes, json=json)
        return
    if fields != FIELDS and pairs is None:
        raise CycloptsError(msg="--source-field and --target-field are for --pairs.")
    if pairs is None and len(valid) != 1:
        refuse(given_settings(records), "is for --pairs")
    replaces = overwrite or continues
    check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    with progress_bar() as progress, bad_records(records, "stop", *filter(None, [pairs, *valid])) as bad:
        train_set = _pairs(source, target, pairs, fields, progress, bad)
        validation = None if not valid else _validation_pairs(valid, fields, progress, bad)
        target_tokenizer = tokenizer_of(with_defaults(TokenizerConfig, tokenizer, kind="bpe"))
        own_tokenizer = None if source_tokenizer is None else replace(target_tokenizer, kind=source_tokenizer)
        with shown_run(progress, output, resume=resume, overwrite=overwrite) as options:
            model = train_pairs(
                train_set,
                config,
                tokenizer=target_tokenizer,
                source_tokenizer=own_tokenizer,
                markers=markers,
                training=TrainingConfig(**settings),
                validation=validation,
                vectors=vectors,
                source_vectors=source_vectors,
                fixed_vectors=fixed_vectors,
                **options,
            )
        if not is_first_process():
            return
        save_or_keep(model, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    _note_left_out(model.record)
    seconds = seconds_since(began, model.record)
    summary = {"model": str(output), "total_seconds": seconds, "peak_memory_bytes": peak_memory()}
    if json:
        print_json({**model.record, **summary})
    else:
        _print_summary(model.record, summary)


def _pairs(
    source: str | None,
    target: str | None,
    pairs: str | None,
    fields: tuple[str, str],
    progress: Progress,
    bad: BadRecords,
) -> Pairs:
    """Return the pairs of the files.

    Raises TextError; CycloptsError where the files of either side are missing, or named twice.
    """
    from chainrule.text.parallel import pairs_of

    if pairs is not None:
        if source is not None or target is not None:
            raise CycloptsError(msg="--pairs has both sides; leave out --source and --target.")
        return pairs_of([pairs], fields, progress, bad, named=fields != FIELDS)
    if source is None or target is None:
        missing = " and ".join(name for name, given in (("--source", source), ("--target", target)) if given is None)
        raise CycloptsError(msg=f"{missing} is missing; or give a file with both sides, --pairs.")
    return pairs_of([source, target], fields, progress)


def _validation_pairs(valid: tuple[str, ...], fields: tuple[str, str], progress: Progress, bad: BadRecords) -> Pairs:
    from chainrule.text.parallel import pairs_of

    if len(valid) > 2:
        raise CycloptsError(msg=f"--valid takes a source and a target file, or one of pairs, not {len(valid)} files.")
    return pairs_of(list(valid), fields, progress, bad, named=fields != FIELDS)


def _note_left_out(record: dict[str, Any]) -> None:
    reasons = {"left_out": "since one side is empty", "too_long": "since the source is longer than the model reads"}
    for name, why in reasons.items():
        if record.get(name):
            note(f"{count_of(record[name], 'pair')} left out, {why}")
    if record.get("shortened"):
        network = record["settings"]
        how = {"end": "their ends were cut off", "front": "their fronts were cut off"}
        what = how.get(network["long_sources"], "only the most central sentences were read")
        note(f"{count_of(record['shortened'], 'source')} of more than {network['max_source'] - 1:,} tokens: {what}")


def _print_summary(record: dict[str, Any], summary: dict[str, Any]) -> None:
    print(f"{summary['model']}: encoder-decoder with {record['parameters']:,} parameters")
    speed = record["tokens_seen"] / max(record["training_seconds"], 1e-9)
    print(
        f"{count_of(record['steps'], 'step')}, {record['tokens_seen']:,} target tokens of {record['tokens']:,} in "
        f"{record['documents']:,} pairs, in {record['training_seconds']:.1f} s of training: {speed:,.0f} tokens/s"
    )
    if "validation" in record:
        validation = record["validation"]
        print(
            f"validation: {validation['loss']:.4f} nats a token on {validated_on(validation)} of "
            f"{validation['pairs']:,} pairs, best after step {validation['step']:,}"
        )
        note_untrained(record)
