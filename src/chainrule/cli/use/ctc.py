"""chainrule ctc LOGITS LM: texts from the outputs of a network that was trained by CTC."""

from __future__ import annotations

import json as json_module
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.api.speech.config import CtcOptions
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelTokenizerName,
    Needs,
    Overwrite,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.errors import ChainruleError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.api.speech.ctc import DecodedUtterance


def ctc(
    logits: Annotated[
        str, FILE, Parameter(help="The network's outputs, frames x labels: .npy, .npz, JSON lines, or - for those.")
    ],
    model: Annotated[
        Path | None, Parameter(help="A language model: any folder or file of one. Without it, labels alone decide.")
    ] = None,
    /,
    *,
    options: Flags[CtcOptions] = NO_FLAGS,
    nbest_out: Annotated[
        Path | None, Parameter(help="Write the best texts of each utterance with their scores, for rescore: .jsonl.")
    ] = None,
    nbest: Annotated[
        int, WholeNumber, Parameter(help="How many texts --nbest-out has of each utterance."), Needs("nbest_out")
    ] = 100,
    times: Annotated[
        Path | None, Parameter(help="Write when each word was said, as NIST's CTM: id, channel, start, length, word.")
    ] = None,
    frame: Annotated[
        float, Parameter(help="Seconds from one frame to the next, for --times; wav2vec 2.0 has 0.02."), Needs("times")
    ] = 0.02,
    tokenizer: ModelTokenizerName = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Decode speech: from a network's CTC outputs to texts, with a language model.

        $ chainrule ctc logits.npz lm/ --labels vocab.json --nbest-out heard.jsonl

    Prints a text for each matrix, the best of a prefix beam search, ranked by
    log P of the labels + alpha x ln P of the words + beta x their number. Logits,
    log-probabilities and probabilities are told apart; a note says where they
    were not logits. JSON lines are matrices, or {"id": "1", "logits": [[...]]}
    with, optionally, "labels" and "reference". A matrix that is wrong is named,
    and the others go on.
    """
    from chainrule.api.speech.ctc import decode_ctc
    from chainrule.base.files import check_new_file, replace_file

    if frame <= 0:
        raise CycloptsError(msg=f"--frame is {frame:g}; expected seconds, more than 0.")
    for path in (nbest_out, times):
        if path is not None:
            check_new_file(path, overwrite=overwrite, inputs=[logits])
    if nbest_out is not None and nbest_out == times:
        raise CycloptsError(msg="--nbest-out and --times name the same file; give them different names.")
    errors: list[ChainruleError] = []

    def report(error: ChainruleError) -> None:
        errors.append(error)
        note(str(error))

    kinds: set[str] = set()
    with progress_bar() as progress, ExitStack() as stack:
        loaded = None if model is None else open_model(model, tokenizer, None, progress)
        write_nbest, write_times = (
            None if path is None else stack.enter_context(replace_file(path)).write for path in (nbest_out, times)
        )
        decoded = decode_ctc(logits, loaded, **given_settings(options), on_error=report, progress=progress)
        count = 0
        for utterance in decoded:
            count += 1
            if utterance.kind == "probabilities" and utterance.kind not in kinds:
                note(f"{utterance.id}: holds probabilities, of which the logarithms were taken; said once")
            kinds.add(utterance.kind)
            _print(utterance, json=json)
            if write_nbest is not None:
                line = json_module.dumps(utterance.to_dict(nbest), ensure_ascii=False)
                write_nbest(line.encode("utf-8", "surrogatepass") + b"\n")
            if write_times is not None:
                _write_times(write_times, utterance, frame)
        if not count:
            raise errors[0] if errors else SettingError(f"{logits}: has no matrix; expected one or more")
    if errors:
        raise SettingError(
            f"{logits}: {len(errors):,} of {count + len(errors):,} matrices could not be decoded; see above"
        )


def _print(utterance: DecodedUtterance, *, json: bool) -> None:
    if not json:
        print(utterance.text, flush=True)
        return
    best = utterance.nbest[0]
    words = [{"word": word, "start": start, "end": stop} for word, start, stop in best.words]
    print_json({"id": utterance.id, "text": best.text, "ctc": best.ctc, "lm": best.lm, "words": words})


def _write_times(write: Callable[[bytes], int], utterance: DecodedUtterance, frame: float) -> None:
    for word, start, stop in utterance.nbest[0].words:
        write(f"{utterance.id} 1 {start * frame:.3f} {(stop - start) * frame:.3f} {word}\n".encode("utf-8", "replace"))
