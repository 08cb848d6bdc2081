"""The verbs convert (between model folders, ARPA files and the formats of other programs), info and verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Shown, row
from chainrule.base.tables import text_of_rows
from chainrule.cli.shared.models import (
    check_model_target,
    check_shards_target,
    is_arpa,
    note_warnings,
    open_model,
    save_or_keep,
)
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Json,
    ModelPath,
    ModelTokenizerName,
    Needs,
    Normalise,
    Overwrite,
    WholeNumber,
    as_output,
    flags_of,
    given_flags,
    given_settings,
    tokenizer_of,
    with_defaults,
)
from chainrule.cli.shared.parts import with_flags
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.errors import ChainruleError, SettingError
from chainrule.kinds import writers
from chainrule.models.files.writing import named_writers

Form: Any = Literal[tuple(named_writers())]
_SETTINGS: dict[str, Any] = {
    writer.name.strip("."): writer.settings.get() for writer in writers() if writer.settings is not None
}


@with_flags({name: (flags_of(settings), NO_FLAGS) for name, settings in _SETTINGS.items()})
def convert(
    source: ModelPath,
    target: Annotated[
        Path,
        Parameter(
            converter=as_output,
            help="A new model folder, or a file that ends in .gguf, .arpa, .fst.txt or .combined, the last three also "
            "with .gz, .zst, .xz or .bz2; for word vectors, .vec, .txt or .bin.",
        ),
    ],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    normalise: Annotated[Normalise, Needs("tokenizer")] = None,
    compact: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Write a compact model, quantised: an n-gram model in a fifth of the size, a Transformer in int8, in "
            "little more than a quarter.",
        ),
    ] = False,
    bits: Annotated[
        Literal[4, 5, 6, 8] | None,
        Parameter(
            help="Quantise the weights of a Transformer to this many bits, in blocks as in GGUF files. Products then "
            "round vectors to eight bits, too, and are several times as fast. A GGUF file has 4, 5 or 8."
        ),
        Needs("compact"),
    ] = None,
    shards: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="Cut an n-gram model into about as many files, which several processes may serve."),
    ] = None,
    to: Annotated[
        Form | None,
        Parameter(
            help="hugging-face: write a network as a folder that transformers opens; peft: the adapter of an adapted "
            "model alone, as peft's folder; gguf-adapter: as a file for llama.cpp."
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        Parameter(help="Merge the adapter in this folder, ours or peft's, or GGUF file into the model."),
    ] = None,
    allow_pickle: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Open a Hugging Face folder whose weights are pickles. These can run any code, so do it only if you "
            "trust their author.",
        ),
    ] = False,
    overwrite: Overwrite = False,
    flags: dict[str, Any],
) -> None:
    """Convert between model folders, ARPA files, and the formats of other programs.

        $ chainrule convert lm/ model.arpa
        $ chainrule convert lm/ for-transformers/ --to hugging-face
        $ chainrule convert smollm2/ smollm2.gguf --compact --bits 4

    An ARPA file or KenLM binary does not say how its text was tokenized: marks of
    our tokenizers are recognised, else white space is assumed. Without --compact,
    a compact model is unpacked. --to hugging-face writes a network for
    transformers, x.gguf one for llama.cpp. An adapter is merged.

    An n-gram model becomes an automaton in OpenFst's text, x.fst.txt, with the
    symbols of its words in x.syms and back-off arcs labelled #0; or a word list
    for Android keyboards, x.combined.

    Word vectors are converted between folders, word2vec text (.vec), GloVe text
    (.txt) and .bin: fastText if they have subwords, else word2vec binary.
    """
    from chainrule.models.files.folders import open_adapter
    from chainrule.models.files.opening import load
    from chainrule.models.files.recognition import model_class_at
    from chainrule.models.files.writing import writer_of
    from chainrule.models.model import Model
    from chainrule.models.open_options import OpenOptions
    from chainrule.ngram.layouts import base_of
    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.verbs.convert import convert as convert_to
    from chainrule.verbs.convert import in_layout, in_shards

    writer = writer_of(target)
    settings = None
    for name, own in flags.items():
        if given := given_flags(own):
            if writer is None or writer.name.strip(".") != name:
                raise CycloptsError(msg=f"--{given[0]} is for a file whose name ends in .{name}; {target} is another.")
            settings = _SETTINGS[name](**given_settings(own))
    as_config = with_defaults(TokenizerConfig, NO_FLAGS, kind=tokenizer, normalise=normalise)
    config = tokenizer and tokenizer_of(as_config)
    is_text_model = issubclass(model_class_at(source) or Model, Model)
    if to is not None or (writer is not None and not is_arpa(target)) or not is_text_model:
        cannot = compact and (to is not None or writer is None or not writer.packs or not is_text_model)
        if cannot or shards is not None or (config and (to is not None or not is_text_model)):
            why = "are for models of single texts" if not is_text_model else "are for folders of ours"
            raise CycloptsError(msg=f"--tokenizer, --normalise, --compact and --shards {why}.")
        with progress_bar() as progress:
            converted = convert_to(
                source,
                target,
                tokenizer=config or None,
                compact=compact,
                bits=bits,
                to=to,
                adapter=adapter,
                settings=settings,
                allow_pickle=allow_pickle,
                overwrite=overwrite,
                progress=progress,
            )
        note_warnings(converted.record, source)
        return
    if shards is not None:
        check_shards_target(target, compact=compact)
    check_model_target(target, overwrite=overwrite, compact=compact, ngrams=True)
    with progress_bar() as progress:
        if adapter is None:
            model = open_model(source, config, None, progress, allow_pickle=allow_pickle)
        else:
            model = open_adapter(adapter, source, load, exact=OpenOptions().is_exact)
        if model.is_compact and not compact:
            note(f"{source}: was quantised when it was compacted, and stays so")
        converted = in_layout(model, compact=compact, bits=bits, progress=progress)
        if converted.is_compact and not model.is_compact and model.layout is None:
            from chainrule.neural.quantization import packed_share

            form = "int8" if bits is None else f"{bits} bits, and vectors are rounded to eight"
            share = packed_share(converted.engine.network)
            part = "its weights" if share == 1 else f"{share:.0%} of its weights, in rows of a multiple of 32 numbers,"
            note(f"{target}: {part} are in {form}; its figures differ a little from those of {source}")
        if isinstance(model.engine, ShardedModel) and shards is None and not is_arpa(target):
            note(f"{target}: a folder of shards, as {source} is; for one file, name it .arpa or .arpa.gz")
        if shards is not None:
            converted = in_shards(converted, shards, progress)
            if (made := len(base_of(converted.engine).edges) - 1) < shards:
                note(
                    f"{target}: {made} of {shards} shards; the n-grams beyond unigrams are too "
                    "few for more, and each shard has all unigrams"
                )
        save_or_keep(converted, target, overwrite=overwrite, progress=progress)


def info(model: ModelPath, /, *, json: Json = False) -> None:
    """Show what is known about a model: size, settings, data, training, validation.

        $ chainrule info lm/

    Prints the model card, the size in bytes, and the model's part of the
    signature that measurements have. --json prints the full record. If another
    program's file or folder cannot be opened, prints its contents and the
    reason.
    """
    from chainrule.models.files.opening import info as read_info

    show = ResultOptions(json=json)
    try:
        with progress_bar() as progress:
            summary = read_info(model, progress=progress)
    except ChainruleError as error:
        if error.contents:
            record = {"model": str(model), "refused": str(error), "contents": dict(error.contents)}
            show.show(Shown(text_of_rows(error.contents), record))
        raise
    show.show(Shown(str(summary), {"model": str(model), **summary.as_json()}))
    if summary.family == "vectors":
        note_warnings(summary.record, model)


def verify(
    model: ModelOrName = None,
    /,
    *,
    distribution: Annotated[
        bool, Parameter(negative=(), help="Check that the probabilities are a distribution, in place of checksums.")
    ] = False,
    text: Annotated[
        Path | None,
        Parameter(
            help="A text whose beginnings are the contexts to check; by default, the model draws one. --url needs it."
        ),
        Needs("distribution"),
    ] = None,
    contexts: Annotated[
        int, WholeNumber, Parameter(help="How many random contexts from the text to check."), Needs("distribution")
    ] = 20,
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of the contexts."), Needs("distribution")] = 0,
    server: ServerOptions = ServerOptions(),  # noqa: B008
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Verify the checksums of a model folder, or that probabilities sum to one.

        $ chainrule verify lm/

    Reads every byte, config.json and the model card included. The exit status
    is 1 if a checksum differs.

    With --distribution, checks any model that continues texts, and servers
    (--url) as far as their answers allow: the probabilities of all next tokens
    must sum to one, the score of a text must be the sum of its steps, and
    nothing may depend on later tokens or other texts. The exit status is 1 if
    a check fails.
    """
    show.check()
    if distribution:
        _verify_distribution(model, text, contexts, seed, server, show)
        return
    if server.url is not None:
        raise CycloptsError(msg="--url needs --distribution.")
    if model is None:
        raise CycloptsError(msg="MODEL is missing.")
    from chainrule.storage.model_folder import CARD
    from chainrule.verbs.verify import verify as check_folder

    with progress_bar() as progress:
        checked = check_folder(model, progress=progress)
    card = f", {CARD}" if checked.has_card else f" (without its {CARD})"
    shown = f"{model}: intact; config.json{card} and {checked.bytes:,} bytes of data match their checksums"
    show.show(row(shown, {"model": str(model), **checked._asdict()}))


def _verify_distribution(
    path: Path | None, text: Path | None, contexts: int, seed: int, server: ServerOptions, show: ResultOptions
) -> None:
    from chainrule.models.language_models import CausalModel
    from chainrule.verbs.verify import verify_distribution

    client = server.client(path)
    with progress_bar() as progress:
        model = client or open_model(cast("Path", path), None, None, progress, kind=CausalModel)
        source = None if text is None else [text]
        found = verify_distribution(model, source, contexts=contexts, seed=seed, progress=progress)
    name = server.url if client is not None else path
    checks = [{"model": str(name), **check._asdict()} for check in found.checks]
    show.show(Shown(str(found), {"model": str(name), **found.as_json()}, checks))
    if found.is_distribution is None:
        raise SettingError(f"{name}: nothing could be tested")
    if not found.is_distribution:
        raise SettingError(f"{name}: not a distribution: its perplexities cannot be compared with those of others")
