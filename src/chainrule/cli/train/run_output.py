"""What a training run shows: progress while it trains, whether it resumes, and what a finished run was.

At a terminal, one line is overwritten; other lines stay. With --resume, a run that has ended is checked to be the same
run, and reported.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps, loads
from typing import TYPE_CHECKING, Any

from chainrule.base.tables import count_of
from chainrule.cli.shared.screen import LINE_PATIENCE, note, print_json, progress_bar
from chainrule.cli.shared.wrong_usage import with_flags
from chainrule.errors import SettingError
from chainrule.training.config import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from chainrule.cli.shared.screen import Bar
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.training.reports import Report

_SETTLED = ("sentence_end",)  # settings of a network that the training text decides


def continues_run(output: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether the unfinished run in a folder is to be continued. Raises SettingError if both options are given."""
    from chainrule.training.checkpoint import is_unfinished

    if resume and overwrite:
        raise SettingError("--resume continues a run and --overwrite starts a new one; give one of them")
    return resume and is_unfinished(output)


def report_finished_run(
    output: Path,
    family: str,
    network: dict[str, Any] | None,
    training: dict[str, Any],
    other_changes: Callable[[dict[str, Any]], list[str]],
    *,
    left_open: frozenset[str] = frozenset(),
    json: bool,
) -> None:
    """Prints that the run of the model in a folder has ended.

    network: the settings of the network now; None if `other_changes` compares them. training: the training settings
    that were given. other_changes: a function that returns, in words, what else differs from the model's record.
    left_open: the settings of the network that its run chose. Raises SettingError if the model was trained with other
    settings, ModelFormatError if there is no model.
    """
    from chainrule.storage.config_json import read_config
    from chainrule.training.checkpoint import is_first_process

    entry = read_config(output)
    if entry.family != family:
        changes = [f"family was {entry.family} and is {family}"]
    else:
        before = entry.record.get("training", {})
        given = {name: value for name, value in training.items() if name != "device"}  # recorded as the device in use
        settled = {*_SETTLED, *left_open}
        kept = entry.settings.get("network") or entry.record.get("network", {})
        if "output" in entry.record:  # by which it learned
            kept = {**kept, "output": entry.record["output"]}
        saved, now = (
            {name: value for name, value in settings.items() if name not in settled}
            for settings in (kept, network or {})
        )
        changes = [] if network is None else differences(saved, now)
        changes += differences({name: before.get(name) for name in given}, given)
        changes += other_changes(entry.record)
    if changes:
        raise SettingError(
            f"{output}: the run has ended, with other settings: {'; '.join(changes)}. Use --overwrite instead of "
            "--resume to replace its model, or choose another folder"
        )
    if is_first_process():
        steps = entry.record.get("steps")
        after = "" if steps is None else f", after {count_of(steps, 'step')}"
        note(f"the run has ended{after}; {output} is its model")
        if json:
            print_json({**entry.record, "model": str(output)})


def text_differences(before: dict[str, Any], source: Source, tokenizer: TokenizerConfig) -> list[str]:
    """How the text and tokenizer differ from those in a model's record, in words."""
    from chainrule.text.tokenization.config import TokenizerConfig

    tokenizers = asdict(TokenizerConfig()) | before.get("tokenizer", {}), asdict(tokenizer)
    was, becomes = (loads(dumps(part)) for part in tokenizers)
    changes = [f"the tokenizer's {part}" for part in differences(was, becomes)]
    with progress_bar() as progress:
        for _ in source.blocks(progress, "comparing the text"):
            pass
    now = loads(dumps(source.record))
    for name in ("reading", "mix"):
        changes += differences(before.get(name, {}), now.get(name, {}))
    return changes + data_differences(before, now)


def data_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Says whether two records are of different texts, whatever the names of their files."""
    was, becomes = (list(part.get("data", {}).values()) for part in (before, loads(dumps(now))))
    return [] if was == becomes else ["the text differs"]


class TrainingScreen:
    """A callback for training reports; prints them to standard error."""

    def __init__(self, before_first: Callable[[], None]) -> None:
        """before_first: a callback, called before the first line."""
        self._before_first: Callable[[], None] | None = before_first
        self._is_terminal = sys.stderr.isatty()
        self._width = 0  # of the line that may be overwritten
        self._written = 0.0  # when; reset by the first report, so that what came before training adds no line

    def __call__(self, report: Report) -> None:
        if self._before_first is not None:
            self._before_first()
            self._before_first, self._written = None, time.monotonic()
        if report.note is not None:
            for line in report.note.splitlines():
                note(with_flags(line))
        stays = report.valid_loss is not None or report.step == report.steps
        if not stays and not self._is_terminal and time.monotonic() - self._written < LINE_PATIENCE:
            return
        self._written = time.monotonic()
        line = str(report)
        if self._is_terminal:
            sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if stays else ""))
            self._width = 0 if stays else len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Ends a line that could still be overwritten."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0


@contextmanager
def shown_run(progress: Bar, output: Path, **options: bool) -> Iterator[dict[str, Any]]:
    """The options of the run of a training, whose reports are shown and whose checkpoints are kept in a folder.

    options: resume and, where the training has it, overwrite.
    """
    screen = TrainingScreen(progress.close)
    yield {"folder": output, "on_report": screen, "progress": progress, **options}
    screen.close()


def summary_of(output: Path, began: float, learned: Mapping[str, Any] | None = None, **figures: Any) -> dict[str, Any]:
    """What a training made and took, for JSON.

    began: by `time.perf_counter`. learned: the record of its run, which may have been resumed. figures: others, of the
    model.
    """
    from chainrule.base.memory import peak_memory
    from chainrule.models.run import seconds_since

    files = output.iterdir() if output.is_dir() else [output]
    return {
        "model": str(output),
        **figures,
        "bytes": sum(path.stat().st_size for path in files),
        "total_seconds": seconds_since(began, learned or {}),
        "peak_memory_bytes": peak_memory(),
    }


def cost_line(summary: dict[str, Any], learned: Mapping[str, Any] | None = None) -> str:
    """The size of what was made, and what it took: the last line of a summary. learned: as in `summary_of`."""
    from chainrule.base.memory import bytes_shown

    memory = summary["peak_memory_bytes"]
    memory_used = f", {memory / 1e9:.2f} GB peak memory" if memory else ""
    earlier = None if learned is None else learned.get("earlier_seconds")
    resumed = "" if earlier is None else f", of which {earlier:.1f} s before the run was resumed"
    return f"{bytes_shown(summary['bytes'])}, {summary['total_seconds']:.1f} s{resumed}{memory_used}"


def validated_on(validation: dict[str, Any]) -> str:
    """What a network was validated on, in words; a masked network predicts only some of the tokens that it reads."""
    predictions, read, whole = (validation[name] for name in ("tokens", "read_tokens", "text_tokens"))
    part = "" if read == whole else f" ({read / whole:.0%} of the text, to save time)"
    return f"{predictions:,} tokens{part}"


def note_untrained(record: dict[str, Any]) -> None:
    """Prints a note where a network predicts no better than token frequencies, and what to do.

    record: of the run, with its steps and validation.
    """
    from chainrule.training.reports import is_untrained

    if not is_untrained(record):
        return
    validation, steps = record["validation"], record["steps"]
    note(f"this is no better than token frequencies alone, {validation['unigram_loss']:.4f} nats")
    if validation["step"] <= steps / 2:
        best = f"validation was best after step {validation['step']:,} of {steps:,}"
        note(f"{best}, then the network overfitted its text; train on more text, or make the network smaller")
    else:
        note("the network has learned nothing from context yet; train it longer, or make it smaller")
