"""The surprisal of each token, word, character or byte of texts, or of whole texts, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.base.results import finite
from chainrule.base.tables import count_of
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.likelihood import token_signature
from chainrule.features.reading.ready_rows import made_ready
from chainrule.features.reading.word_frequencies import WordFrequencies
from chainrule.models.any_model import check_model
from chainrule.models.progress_line import showing
from chainrule.text.corpus.block import Texts, block_of_texts
from chainrule.text.corpus.corpus import Corpus, source_of
from chainrule.text.corpus.record_blocks import columns_beside, fields_beside
from chainrule.text.corpus.writing import check_table_format, listed, rows_in, table_file
from chainrule.verbs.scored_texts import PER_NAT, SHOWN, SINGULAR, CountedWords, shown_units
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths, Source

Columns = dict[str, list[Any]]  # of a table: the values of each column, by its name
Arrays = dict[str, Any]  # the same, each an array, or Texts


_PART_BYTES = 1 << 18  # scored at a time


@takes(SurprisalOptions)
def surprisal(source: Source | Paths, model: Model | Mapping[str, Model], options: SurprisalOptions) -> Surprisals:
    """Return the surprisal of each word of some texts, or of each token, character, byte or text: a table for pandas
    and R.

    The rows are read and scored while one goes through them. Of records, the fields beside the text are columns, too,
    so that ids and conditions stay with each word. model: also several by name, which cut a text in the same way: each
    has columns that end in its name; or rows of its own, with `long`. Raises TypeError, TextError, SettingError,
    MarkerError.

    source: files, or a `Corpus`, whose Reading says which field or column has the text.

    good:  pandas.DataFrame(chainrule.surprisal("items.csv", chainrule.load("lm/")))
    good:  chainrule.surprisal(chainrule.Corpus.of("items.csv", chainrule.Reading(field="sentence")), model)
    good:  chainrule.surprisal("items.jsonl", model, by="tokens", nats=True).save("tokens.parquet")
    good:  chainrule.surprisal("items.csv", {"lm": lm, "gpt2": gpt2}, entropy=True, frequencies="counts.txt")
    good:  chainrule.surprisal("items.csv", {"lm": lm, "gpt2": gpt2}, long=True).save("words.csv")
    """
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    for one in models.values():
        check_model(one)
    if not models:
        raise SettingError("there is no model; give at least one")
    first, *others = models
    for other in others if options.by == "tokens" and not options.long else ():
        if token_signature(models[other].tokenizer) != token_signature(models[first].tokenizer):
            raise SettingError(
                f"{first} and {other} have different tokenizers, so their tokens cannot share rows; take words, or "
                "--long, which gives each model rows of its own"
            )
    if options.entropy and options.by not in ("words", "tokens"):
        raise SettingError(f"the entropy of the next token is for words and tokens, not for {options.by}")
    if (options.frequencies is not None or options.previous) and options.by != "words":
        raise SettingError(f"frequencies and previous words are for words, not for {options.by}")
    if options.convention != "chainrule" and options.by != "words":
        raise SettingError(
            f"the convention {options.convention} says how words end; it is for words, not for {options.by}"
        )
    if not options.word_ends and options.by != "words":
        raise SettingError(f"word ends are those of words, not of {options.by}; leave no-word-ends out")
    if options.word_entropy and options.by != "words":
        raise SettingError(f"the entropy of the next word is for words, not for {options.by}")
    if options.entropy or options.word_entropy:
        for name, one in models.items():
            if not getattr(one, "is_distribution", True):
                raise SettingError(f"the scores of {name or 'the model'} are no probabilities, so there is no entropy")
            if options.word_entropy and not hasattr(one.engine, "start"):
                raise SettingError("a limited context has no entropy of the next word; leave word_entropy out")
    named = models if others or options.long else {"": models[first]}
    return Surprisals(source_of(source, models[first].document), named, options)


class Surprisals:
    """A table of surprisals; iterating over it scores the texts, and gives a dictionary for each row.

        sentence          the number of the text, from 1
        position          of the word in its text, from 1
        word              or token, character, byte, text
        length            of a word, in characters, with its punctuation
        log_frequency     if asked for: ln of the word's relative frequency; None if it has none
        surprisal_bits    -log2 P under the model itself, unknown tokens as <unk> with their spelling; of a word, with
                          its end; by another convention than chainrule's, surprisal_minicons_bits
        uncorrected_bits  of a word: the sum of its tokens' surprisals, which pays for the end of the word before it
        entropy_bits      if asked for: of the next token, before the word's first one. Where tokens are words, this is
                          the entropy of the next word; else see word_entropy_bits
        word_entropy_bits if asked for: of the next word, from drawn words; where tokens are words, exact
        word_entropy_error_bits    its standard error
        rank              if asked for: of the word's first token, how many tokens were likelier, plus one
        known             whether it has no unknown token
        ngram_length      of n-gram models: the length of the longest n-gram in the model that ends at its first token
        start, stop       its place in the normalised text, in characters

    They come after the fields of the record, of which one with a name of these is called record_sentence, say. In nats,
    the columns are surprisal_nats, uncorrected_nats and entropy_nats; in decimal logarithms surprisal_log10 and so on.
    Columns of one of several models end in its name (surprisal_bits_lm), and those of previous words in _prev1, _prev2
    and so on. In a long table, the first column is the name of the model.

    Once the table was read: empty, the numbers of the texts that have no rows; infrequent, the words that have no
    frequency; unknown, for each model, the words or tokens that it does not know.
    """

    def __init__(self, source: Source, models: Mapping[str, Model], options: SurprisalOptions) -> None:
        self._source, self._models, self._options = source, models, options
        self.empty: list[int] = []
        self.infrequent, self.unknown = CountedWords(), {name: CountedWords() for name in models}
        self._fields: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with showing(self._options.progress) as progress:
            for columns in self._blocks(progress):
                yield from rows_in(columns)

    def to_records(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return list(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write .csv, .tsv, .jsonl or .parquet, by the name; all but the last also compressed. Raises OutputError."""
        from chainrule.base.arguments import as_path
        from chainrule.base.files import check_new_file

        target = as_path(path)
        check_table_format(target)
        check_new_file(target, overwrite=overwrite, inputs=getattr(self._source, "paths", ()))
        with table_file(target, self._example) as write, showing(self._options.progress) as progress:
            for columns in self._blocks(progress, lambda columns: made_ready(columns, target)):
                write(columns)

    def notes(self) -> Iterator[str]:
        """Yield which words are unknown or have no frequency, and which texts no rows, once the table was read."""
        unit = self._options.by.removesuffix("s")
        for name, own in self.unknown.items():
            yield from own.notes(f"are unknown{' to ' * bool(name)}{name}", unit)
        yield from self.infrequent.notes("have no frequency, or a count of 0; their cells are empty")
        if self.empty:
            some = ", ".join(f"{number:,}" for number in self.empty[:SHOWN])
            more = f" and {len(self.empty) - SHOWN:,} more" if len(self.empty) > SHOWN else ""
            texts = f"{count_of(len(self.empty), 'text')} without {self._options.by}"
            yield f"{texts}, of which the table has no rows: number {some}{more}; --ends has a row for each"

    def _example(self) -> dict[str, Any]:
        """Return a row with all columns: that of the end of an empty text."""
        options = replace(self._options, ends=True)
        by_model = [
            columns_of_block(model, block_of_texts([""]), options, suffix) for suffix, model in self._by_suffix()
        ]
        row = {name: values[0] for name, values in self._joined(by_model, 0, self._counts())[0].items()}
        return {**fields_beside(self._fields, row, self._field), **row}

    @property
    def _field(self) -> str:
        """The field of records that has the text."""
        return self._source.reading.text_field if isinstance(self._source, Corpus) else ""

    def _by_suffix(self) -> Iterator[tuple[str, Model]]:
        """Return the models, with the end of the names of their columns."""
        is_named = not self._options.long
        return ((f"_{name}" * (is_named and bool(name)), model) for name, model in self._models.items())

    def _counts(self) -> WordFrequencies | None:
        """Return the frequencies of words, if they are asked for."""
        frequencies = self._options.frequencies
        return None if frequencies is None else WordFrequencies(frequencies)

    def _blocks(
        self, progress: Progress, prepare: Callable[[Arrays], Mapping[str, Any]] | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the rows, some texts at a time. prepare: makes them ready for a file, on threads."""
        inside, number, counted = BlockProgress(progress, "scoring"), 0, self._counts()
        source = self._source
        read = source.with_fields().blocks_as_they_come if isinstance(source, Corpus) else source.blocks
        self.empty, self.infrequent, self._fields = [], CountedWords(), {}
        self.unknown = {name: CountedWords() for name in self._models}
        options = self._options
        is_plain = len(self._models) == 1 and counted is None and not options.long and not options.previous

        def scored(numbered: tuple[int, Block]) -> tuple[Block, list[tuple[Arrays, ndarray]], Mapping[str, Any] | None]:
            before, piece = numbered
            by_model = [arrays_of_block(model, piece, options, suffix) for suffix, model in self._by_suffix()]
            if not is_plain or piece.fields or prepare is None:
                return piece, by_model, None
            arrays, rows = by_model[0]
            arrays["sentence"] = np.repeat(np.arange(before + 1, before + 1 + rows.size), rows)
            return piece, by_model, prepare(arrays)

        # Networks have threads of their own and need much memory for each block.
        networks = [hasattr(model.language_model, "score_stream_with_unknown") for model in self._models.values()]
        each = map if any(networks) else map_in_order
        for block in read(inside, "scoring"):
            done = 0
            for piece, by_model, ready in each(scored, _numbered(block.pieces(_PART_BYTES), number)):
                self._note(by_model, number)
                if number == 0 and piece.fields:
                    self._fields = piece.fields[0]
                if ready is not None:
                    number += by_model[0][1].size
                    yield ready
                else:
                    columns, rows = self._joined([_in_lists(*own) for own in by_model], number, counted)
                    number += len(rows)
                    yield from columns_beside(piece.fields or (), columns, rows, self._field)
                done += piece.text.size
                inside.report(done)

    def _note(self, by_model: Sequence[tuple[Arrays, ndarray]], before: int) -> None:
        """Note which texts have no rows, and what is unknown. before: how many texts come before these."""
        rows = by_model[0][1]
        self.empty += (np.flatnonzero(rows == 0) + before + 1).tolist()
        if self._options.by not in ("words", "tokens"):
            return
        for (suffix, _), own, (arrays, own_rows) in zip(
            self._by_suffix(), self.unknown.values(), by_model, strict=True
        ):
            inside = np.ones(own_rows.sum(), np.bool_)
            if self._options.ends:
                inside[np.cumsum(own_rows) - 1] = False
            own.words += int(inside.sum())
            unknown = arrays[SINGULAR[self._options.by]][inside & ~arrays[f"known{suffix}"]]
            own.unknown.update(unknown.tolist())

    def _joined(
        self, by_model: Sequence[tuple[Columns, list[int]]], before: int, counted: WordFrequencies | None
    ) -> tuple[Columns, list[int]]:
        """Return the columns of all models, and those that need no model; how many rows each text has.

        Raises TextError. before: how many texts come before these.
        """
        names, (columns, rows) = [*self._models], by_model[0]
        if self._options.long:
            parts = [self._completed(*own, before, counted, name) for own, name in zip(by_model, names, strict=True)]
            nothing = [[None] * len(part["model"]) for part in parts]
            joined = {
                name: [value for part, none in zip(parts, nothing, strict=True) for value in part.get(name, none)]
                for name in dict.fromkeys(itertools.chain(*parts))
            }
            order = sorted(range(len(joined["sentence"])), key=joined["sentence"].__getitem__)
            sizes = [sum(own) for own in zip(*(own_rows for _, own_rows in by_model), strict=True)]
            return {name: [values[i] for i in order] for name, values in joined.items()}, sizes
        for name, (own_columns, own_rows) in zip(names[1:], by_model[1:], strict=True):
            if own_rows != rows:
                i = next(i for i, (one, other) in enumerate(zip(rows, own_rows, strict=True)) if one != other)
                raise TextError(
                    f"sentence {before + i + 1}: {name} reads {own_rows[i]} {self._options.by}, and {names[0]} "
                    f"{rows[i]}; their tokenizers write the text in different ways, so they cannot share rows; --long "
                    "gives each model rows of its own"
                )
            columns |= {column: values for column, values in own_columns.items() if column not in columns}
        return self._completed(columns, rows, before, counted, names[0]), rows

    def _completed(
        self, columns: Columns, rows: list[int], before: int, counted: WordFrequencies | None, name: str
    ) -> Columns:
        """Return columns with those that need no model, and the values of previous words. name: of the model."""
        columns["sentence"] = [number for number, size in enumerate(rows, before + 1) for _ in range(size)]
        if counted is not None:
            values = counted.log_frequencies(columns["word"])
            items = [*columns.items()]
            columns = {**dict(items[:4]), "log_frequency": values, **dict(items[4:])}
            if name == next(iter(self._models)):
                words, known = self._inside((columns, rows), "word", "log_frequency")
                self.infrequent.add(words, [value is not None for value in known])
        spilled = [column for column in columns if column.startswith(_SPILLS)]
        for k, column in itertools.product(range(1, self._options.previous + 1), spilled):
            places = zip([None] * k + columns[column], columns["position"], strict=False)
            columns[f"{column}_prev{k}"] = [value if place > k else None for value, place in places]
        if self._options.long:
            columns = {"model": [name or self._models[name].family] * sum(rows), **columns}
        return columns

    def _inside(self, of_texts: tuple[Columns, list[int]], *names: str) -> list[list[Any]]:
        """Return the values of some columns, without those of the ends of texts."""
        columns, rows = of_texts
        ends = {end - 1 for end in itertools.accumulate(rows)} if self._options.ends else set()
        return [[value for i, value in enumerate(columns[name]) if i not in ends] for name in names]


def surprisal_column(options: SurprisalOptions) -> str:
    """Return the column of words' surprisals with their ends, which names any convention but ours."""
    convention = "" if options.convention == "chainrule" else f"{options.convention}_"
    return f"surprisal_{convention}{options.unit}"


_SPILLS = ("length", "log_frequency", "surprisal_", "uncorrected_", "entropy_", "word_entropy_")


def columns_of_block(
    model: Model, block: Block, options: SurprisalOptions, suffix: str = ""
) -> tuple[Columns, list[int]]:
    """Return the columns of `arrays_of_block` as lists, and how many rows each text has."""
    return _in_lists(*arrays_of_block(model, block, options, suffix))


def _in_lists(arrays: Arrays, rows: Int64[ndarray, " texts"]) -> tuple[Columns, list[int]]:
    return {name: [*listed(values)] for name, values in arrays.items()}, rows.tolist()


def _numbered(pieces: Iterable[Block], before: int) -> Iterator[tuple[int, Block]]:
    """Yield each piece of a block, after the number of texts before it. before: that of texts before the block."""
    for piece in pieces:
        yield before, piece
        before += int(np.count_nonzero(piece.text == piece.document_end))


def arrays_of_block(
    model: Model, block: Block, options: SurprisalOptions, suffix: str = ""
) -> tuple[Arrays, Int64[ndarray, " texts"]]:
    """Return the columns of the texts of a block, see `Surprisals`, and how many rows each text has.

    Sentences have no number. suffix: of the names of columns that depend on the model.
    """
    from chainrule.evaluation.surprisal import read_block, score_alone, word_figures
    from chainrule.protocol import END

    by, unit, scale = options.by, options.unit, -PER_NAT[options.unit]
    if by == "texts":
        encoded = model.tokenizer.encode_block(block)
        scored = score_alone(model.language_model, model.speller, model.tokenizer, block, encoded, only_spelled=True)
        stops = np.flatnonzero(encoded.ids == END) + 1
        starts = np.concatenate([[0], stops[:-1]])
        text_stops = block.stops()
        return {
            "sentence": np.zeros(stops.size, np.int64),
            "text": Texts(block.text, np.concatenate([[0], text_stops[:-1]]), text_stops - 1),
            f"surprisal_{unit}{suffix}": scale * np.add.reduceat(scored.spelled, starts) + 0.0,  # no -0
            f"tokens{suffix}": stops - starts,
            f"unknown_tokens{suffix}": np.add.reduceat(scored.unknown, starts, dtype=np.int64),
        }, np.ones(stops.size, np.int64)
    contexts, figures = None, []
    if by in ("words", "tokens"):
        contexts = read_block(
            model.language_model,
            model.tokenizer,
            block,
            word_ends=by == "words" and options.word_ends,
            entropy=options.entropy or options.word_entropy > 0,
            convention=options.convention,
        )
    # Where nothing is known of contexts, tokens are words, whose ends have no cost.
    if by == "words" and (contexts is not None or options.word_entropy):
        parts = model.language_model, model.tokenizer, model.speller.unseen_types
        figures = word_figures(
            *parts, block, contexts, word_ends=options.word_ends, entropy=options.entropy, drawn=options.word_entropy
        )
    found = shown_units(model, block, by, contexts, only_spelled=True)
    sizes = np.diff(found.documents)
    kept = np.ones(len(found.shown), np.bool_)
    if not options.ends:
        kept[found.documents[1:] - 1] = False

    def column(values: ndarray) -> ndarray:
        return values if options.ends else values[kept]

    def joined(parts: Iterable[ndarray | None]) -> ndarray | None:
        several = [part for part in parts if part is not None]
        return np.concatenate(several) if several else None

    starts, stops = found.characters
    columns: Arrays = {
        "sentence": np.zeros(int(kept.sum()), np.int64),
        "position": column(np.arange(1, kept.size + 1) - np.repeat(found.documents[:-1], sizes)),
        SINGULAR[by]: found.shown[kept],
    }
    if by == "words":
        columns["length"] = column(stops - starts)
    corrections, shifts = (joined(getattr(own, name) for own in figures) for name in ("corrections", "shifts"))
    if by == "words" and options.word_ends and not figures:
        corrections = np.zeros(kept.size)
    if corrections is not None:
        columns[surprisal_column(options) + suffix] = column(scale * (found.spelled + corrections) + 0.0)  # no -0
    name = "uncorrected" if by == "words" else "surprisal"
    columns[f"{name}_{unit}{suffix}"] = column(scale * (found.spelled + (0.0 if shifts is None else shifts)) + 0.0)
    of_tokens = contexts if by == "tokens" and options.entropy and contexts is not None else ()
    entropies, ranks = (joined(getattr(own, name) for own in (*figures, *of_tokens)) for name in ("entropies", "ranks"))
    if entropies is not None and ranks is not None:
        columns[f"entropy_{unit}{suffix}"] = column(-scale * entropies)
        columns[f"rank{suffix}"] = column(ranks)
    drawn = [own.of_words for own in figures if own.of_words is not None]
    if drawn:
        columns[f"word_entropy_{unit}{suffix}"] = column(-scale * np.concatenate([own.values for own in drawn]))
        errors = column(-scale * np.concatenate([own.errors for own in drawn]))
        columns[f"word_entropy_error_{unit}{suffix}"] = [*map(finite, errors.tolist())]
    columns[f"known{suffix}"] = column(~found.unknown)
    if found.ngram_lengths is not None:
        columns[f"ngram_length{suffix}"] = column(found.ngram_lengths)
    columns |= {"start": column(starts), "stop": column(stops)}
    return columns, sizes - (not options.ends)


def words_of_texts(
    model: Model, texts: Sequence[str], options: SurprisalOptions | None = None
) -> list[list[dict[str, Any]]]:
    """Return the rows of the words of each text, as `surprisal` gives them, without `sentence`. Raises MarkerError."""
    columns, sizes = columns_of_block(model, block_of_texts(texts), options or SurprisalOptions())
    del columns["sentence"]
    rows = rows_in(columns)
    return [[*itertools.islice(rows, size)] for size in sizes]
