"""The verb embed: vectors of texts, words, tokens, or a classifier's inputs, as a NumPy file or JSON lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import row
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    ModelMarkerRule,
    NetworkPath,
    Overwrite,
    TextFile,
    given_settings,
)
from chainrule.cli.shared.results import ResultOptions, is_table
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import DEFAULT_READING, TextOptions, check_text_target, note_repairs
from chainrule.decoding.options import EmbeddingConfig, Unit
from chainrule.kinds import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.models.embedding import Embedded, Vectors
    from chainrule.models.embedding_model import EmbeddingModel

DIGITS = 6  # decimals of numbers in JSON


def _write(rows: Iterable[tuple[Vectors, dict[str, Any]]], output: Path | None, *, overwrite: bool) -> None:
    """Print or write vectors. rows: those of each input, and its record for JSON and tables. Raises OutputError."""
    from chainrule.base.files import replace_file
    from chainrule.features.vectors.unit_vectors import write_rows

    if output is not None and not is_table(output):
        with replace_file(output) as file:
            write_rows(file, (vectors for vectors, _ in rows))
        return
    show = ResultOptions(output=output, overwrite=overwrite, json=output is None)
    show.show_all(row("", record) for _, record in rows)


def _rounded(vectors: Vectors) -> list[list[float]]:
    return cast("list[list[float]]", vectors.astype(float).round(DIGITS).tolist())


def _of_units(
    found: Iterable[tuple[list[str], Vectors]], *, is_whole: bool
) -> Iterator[tuple[Vectors, dict[str, Any]]]:
    for units, vectors in found:
        rows = _rounded(vectors)
        yield vectors, {"input": units[0], "vector": rows[0]} if is_whole else {"units": units, "vectors": rows}


def embed(
    model: NetworkPath,
    text: TextFile = "-",
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="A .npy file, one vector a row; or a table: .csv, .tsv, .jsonl or .parquet; with --vocabulary also "
            ".vec, word2vec's format. By default, JSON lines are printed.",
        ),
    ] = None,
    options: Flags[EmbeddingConfig] = NO_FLAGS,
    words: Annotated[bool, Parameter(negative=(), help="Embed each word, not each text.")] = False,
    tokens: Annotated[bool, Parameter(negative=(), help="Embed each token: a word or a subword.")] = False,
    vocabulary: Annotated[
        bool, Parameter(negative=(), help="Embed the tokens of the vocabulary, without context; reads no text.")
    ] = False,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
) -> None:
    """Embed texts, or their words or tokens in context, as vectors.

        $ chainrule embed masked/ heldout.txt -o vectors.npy

    A network that reads from left to right embeds a token given the text up
    to it; a bidirectional network, given the whole text.

    The rows of a .npy file are in the order of the texts, or of their words
    or tokens, which JSON lines name. An empty text has a vector of zeros.

    A sentence encoder (all-MiniLM) gives the vector that it was trained to give,
    for as many tokens as it reads. The prompt that its files name by default
    stands before each text; --prompt-name and --prompt choose another.

    A classifier trained from scratch embeds what it labels, such as texts, nodes
    of graphs or pictures, by the vectors before its output layer. wav2vec 2.0,
    HuBERT and WavLM embed a sound, by the mean of its steps, or with --tokens
    each step.
    """
    from chainrule.models.embedding_model import EmbeddingModel
    from chainrule.models.files.recognition import kind_at

    given = given_settings(options)
    kind = kind_at(model)
    embed_inputs = None if kind is None else rows("embed").get(kind.family)
    if embed_inputs is not None:
        given |= {name: True for name, is_given in (("words", words), ("tokens", tokens)) if is_given}
        if vocabulary:
            raise CycloptsError(msg="--vocabulary is for models of texts; leave it out.")
        if output is not None:
            _check_target(output, vocabulary=False)
        found, is_whole = embed_inputs.get()(model, text, output, given, markers, reading, overwrite=overwrite)
        _write(_of_units(found, is_whole=is_whole), output, overwrite=overwrite)
        return
    if words + tokens + vocabulary > 1:
        raise CycloptsError(msg="Choose one of --words, --tokens and --vocabulary.")
    unit: Unit = "word" if words else "token" if tokens else "text"
    if vocabulary and (text != "-" or given or reading != DEFAULT_READING):
        raise CycloptsError(msg="--vocabulary reads no text and has one layer; leave out TEXT, --layer and the like.")
    source = None if vocabulary else reading.corpus(text)
    if output is not None:
        _check_target(output, vocabulary=vocabulary)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress:
        network = open_model(model, None, markers, progress, kind=EmbeddingModel)
        if output is not None and output.suffix == ".vec":
            _write_vocabulary(network, output, progress)
            return
        config = EmbeddingConfig(unit=unit, **given)
        if config.precision == "bfloat16" and source is not None:
            _note_precision(network)
        if source is None:
            records: Iterable[Embedded] = network.embed_vocabulary()
        else:
            records = network.embed_blocks(source.blocks(progress, "embedding"), config)
        cut = Counter[bool]()
        _write(_of_texts(_counting_cut(records, cut), unit), output, overwrite=overwrite)
    if source is not None:
        note_repairs(source)
    if cut[True]:
        note(f"{cut[True]:,} of the texts are longer than what this encoder reads; only their beginnings count")


def _check_target(output: Path, *, vocabulary: bool) -> None:
    """Raise CycloptsError unless the name of the output ends in one of the formats."""
    suffixes = (".npy", ".csv", ".tsv", ".jsonl", ".parquet", *([".vec"] if vocabulary else []))
    if output.suffix not in suffixes:
        *others, last = suffixes
        raise CycloptsError(msg=f"--output {output}: its name must end in {', '.join(others)} or {last}.")


def _note_precision(model: EmbeddingModel) -> None:
    from chainrule.neural.device import bfloat16_notes

    network = cast("Any", model.embedder).network
    for message in bfloat16_notes(network, network.device):
        note(message)


def _write_vocabulary(model: EmbeddingModel, output: Path, progress: Progress) -> None:
    """Write the vectors of the vocabulary. Raises OutputError, SettingError."""
    from chainrule.features.vectors.writing import write_vectors

    write_vectors(output, model.tokenizer.vocabulary.tokens(), model.embedder.static_vectors(), progress)


def _counting_cut(records: Iterable[Embedded], cut: Counter[bool]) -> Iterator[Embedded]:
    """Pass records on, and count those whose text was cut at the end."""
    for record in records:
        cut[record.is_cut] += 1
        yield record


def _of_texts(records: Iterable[Embedded], unit: Unit) -> Iterator[tuple[Vectors, dict[str, Any]]]:
    for record in records:
        rows = _rounded(record.vectors)
        own = {"vector": rows[0]} if unit == "text" else {f"{unit}s": record.units, "vectors": rows}
        yield record.vectors, {"text": record.text, **own}
