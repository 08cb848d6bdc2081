"""chainrule adapt --preferred: learn from pairs of answers, and print what was learned."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.base.tables import count_of
from chainrule.cli.shared.models import check_model_target, is_model, save_or_keep
from chainrule.cli.shared.options import given_settings
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import RECORD_FLAGS, bad_records
from chainrule.cli.train.networks import print_model
from chainrule.cli.train.run_output import (
    continues_run,
    cost_line,
    report_finished_run,
    shown_run,
    summary_of,
)
from chainrule.training.config import TrainingConfig, differences

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.cli.train.networks import RunFlags
    from chainrule.training.config import AdapterConfig


def adapt_to_preferences(
    model: Path,
    texts: tuple[str, ...],
    preferred: str,
    beta: float,
    output: Path,
    run: RunFlags,
    adapter: AdapterConfig | None,
) -> None:
    """Run chainrule adapt --preferred."""
    from chainrule.storage.config_json import read_config
    from chainrule.training.checkpoint import is_first_process, remove_checkpoints
    from chainrule.verbs.training.train import adapt as adapt_network

    if texts or run.mixing.mix:
        raise CycloptsError(msg="--preferred takes the place of a text; give one of them.")
    if not run.reading.has_only(*RECORD_FLAGS):
        raise CycloptsError(msg="The options that say how to read texts are for TEXTS, not for --preferred.")
    training, adapters = given_settings(run.training), {} if adapter is None else asdict(adapter)
    continues = continues_run(output, resume=run.resume, overwrite=run.overwrite)
    if run.resume and not continues and is_model(output):
        now = {"preferred": preferred, "beta": beta, "start": str(model)}

        def other_changes(before: dict[str, Any]) -> list[str]:
            changed = differences({name: before.get(name) for name in now}, now)
            return changed + differences(before.get("adapter", {}).get("settings", {}), adapters)

        report_finished_run(output, read_config(output).family, None, training, other_changes, json=run.json)
        return
    replaces = run.overwrite or continues
    check_model_target(output, overwrite=replaces)
    began = time.perf_counter()
    files = [preferred, *filter(None, [run.valid])]
    with progress_bar() as progress, bad_records(run.reading, "stop", *files) as bad:
        with shown_run(progress, output, resume=run.resume, overwrite=run.overwrite) as options:
            adapted = adapt_network(
                model,
                preferred=preferred,
                beta=beta,
                bad_records=bad,
                training=TrainingConfig(**training),
                validation=run.valid,
                **adapters,
                **options,
            )
        if not is_first_process():
            return
        save_or_keep(adapted, output, overwrite=replaces, progress=progress)
    remove_checkpoints(output)
    summary, record = summary_of(output, began, adapted.record, vocabulary=adapted.vocabulary_size), adapted.record
    if run.json:
        print_json({**record, **summary})
        return
    print_model(record, summary)
    print(
        f"{count_of(record['steps'], 'step')}, on {count_of(record['pairs'], 'pair')}, in "
        f"{record['training_seconds']:.1f} s of training"
    )
    if "validation" in record:
        validation = record["validation"]
        print(
            f"validation: {validation['loss']:.4f} nats a pair ({validation['unigram_loss']:.4f} before), "
            f"{validation['accuracy']:.1%} of {count_of(validation['tokens'], 'pair')} right, best after step "
            f"{validation['step']:,}"
        )
    print(cost_line(summary, record))
