"""chainrule convert SOURCE TARGET: between model folders, ARPA files, and the formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Normalise, Overwrite, normalisation_steps
from chainrule.cli.models import check_model_target, open_model, save_or_keep
from chainrule.cli.screen import note, progress_bar
from chainrule.ngram.config import COMPACT

Form = Literal["hugging-face"]


def convert(
    source: ModelPath,
    target: Annotated[
        Path, Parameter(help="A new model folder, or a file that ends in .arpa, .arpa.gz, .zst, .xz or .bz2.")
    ],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    normalise: Normalise = None,
    compact: Annotated[
        bool, Parameter(negative=(), help="Write a compact n-gram model: quantised, a fifth of the size.")
    ] = False,
    to: Annotated[
        Form | None, Parameter(help="hugging-face: write a network as a folder that transformers opens.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Convert between model folders, ARPA files, and the formats of other programs.

    KenLM binaries, Hugging Face folders, GGUF files and those of llama2.c become
    model folders; --to hugging-face writes a network for transformers.

        $ chainrule convert lm/ model.arpa
        $ chainrule convert smollm2/ lm/
        $ chainrule convert lm/ for-transformers/ --to hugging-face

    An ARPA file or KenLM binary does not say how its text was tokenized. The
    marks of our own tokenizers are recognised; otherwise white space is assumed.
    Without --compact, a compact model is unpacked: larger and faster, with its
    probabilities still quantised.
    """
    from chainrule.api.convert import in_layout
    from chainrule.text.tokenizer_config import TokenizerConfig

    if normalise and tokenizer is None:
        raise CycloptsError(msg="--normalise needs --tokenizer.")
    if to is not None:
        from chainrule.api.convert import convert as convert_to

        with progress_bar() as progress:
            convert_to(source, target, to=to, overwrite=overwrite, progress=progress)
        return
    check_model_target(target, overwrite=overwrite, compact=compact)
    with progress_bar() as progress:
        config = tokenizer and TokenizerConfig(kind=tokenizer, normalise=normalisation_steps(normalise))
        model = open_model(source, config, None, progress)
        if model.layout == COMPACT and not compact:
            note(f"{source}: its probabilities were quantised when it was compacted, and stay so")
        save_or_keep(
            in_layout(model, compact=compact, progress=progress), target, overwrite=overwrite, progress=progress
        )
