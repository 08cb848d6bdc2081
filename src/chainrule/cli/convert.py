"""chainrule convert SOURCE TARGET: between model folders and ARPA files, and from KenLM's binaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Normalise, Overwrite, steps_of
from chainrule.cli.models import check_model_target, opened, save_or_keep
from chainrule.cli.screen import note, progress
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
    """Between model folders, fast and compact, and ARPA files; from the files of other programs, and to theirs.

    KenLM's binaries, Hugging Face folders, GGUF files and those of llama2.c
    become folders of ours; --to hugging-face writes a network the other way.

    Such a file does not say how its text was cut into tokens. The marks of our
    own tokenizers are recognised; else it is taken to be cut at white space.
    A compact model becomes a fast one without --compact; its probabilities stay
    quantised.
    """
    from chainrule.api.convert import in_layout
    from chainrule.text.tokenizer_config import TokenizerConfig

    if normalise and tokenizer is None:
        raise CycloptsError(msg="--normalise needs --tokenizer, which says how the normalised text is cut.")
    if to is not None:
        from chainrule.api.convert import convert as convert_to

        with progress() as told:
            convert_to(source, target, to=to, overwrite=overwrite, progress=told)
        return
    check_model_target(target, overwrite=overwrite, compact=compact)
    with progress() as told:
        config = tokenizer and TokenizerConfig(kind=tokenizer, normalise=steps_of(normalise))
        model = opened(source, config, None, told)
        if model.layout == COMPACT and not compact:
            note(f"{source}: its probabilities were quantised when it was made compact, and stay so")
        save_or_keep(in_layout(model, compact=compact, progress=told), target, overwrite=overwrite, told=told)
