"""The surprisal of each token, word, character or byte of texts, or of whole texts, as a table."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.base.json import finite
from chainrule.base.options import takes
from chainrule.base.progress import BlockProgress
from chainrule.base.tables import count_of
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError, TextError
from chainrule.models.any_model import check_model
from chainrule.models.progress_line import showing
from chainrule.text.corpus.block import block_of_texts
from chainrule.text.corpus.corpus import Corpus, source_of
from chainrule.text.corpus.record_blocks import columns_beside, fields_beside
from chainrule.text.corpus.writing import check_table_format, rows_in, table_file
from chainrule.verbs.frequencies import WordFrequencies
from chainrule.verbs.scored_texts import SINGULAR, shown_units
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths, Source

Columns = dict[str, list[Any]]  # of a table: the values of each column, by its name


_PART_BYTES = 1 << 18  # scored at a time
_SHOWN = 10  # words, or numbers of texts, that a note says


@takes(SurprisalOptions)
def surprisal(source: Source | Paths, model: Model | Mapping[str, Model], options: SurprisalOptions) -> Surprisals:
    """The surprisal of each word of texts, or of each token, character, byte or text: a table for pandas and R.

    The rows are read and scored while one goes through them. Of records, the fields beside the text are columns, too,
    so that ids and conditions stay with each word. model: also several by name, for words and texts: each has columns
    that end in its name. Raises TypeError, TextError, SettingError, MarkerError.

    source: files, or a `Corpus`, whose Reading says which field or column has the text.

    good:  pandas.DataFrame(chainrule.surprisal("items.csv", chainrule.load("lm/")))
    good:  chainrule.surprisal(chainrule.Corpus.of("items.csv", chainrule.Reading(field="sentence")), model)
    good:  chainrule.surprisal("items.jsonl", model, by="tokens", nats=True).save("tokens.parquet")
    good:  chainrule.surprisal("items.csv", {"lm": lm, "gpt2": gpt2}, entropy=True, frequencies="counts.txt")
    """
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    for one in models.values():
        check_model(one)
    if not models:
        raise SettingError("there is no model; give at least one")
    if len(models) > 1 and options.by not in ("words", "texts"):
        raise SettingError(f"several models share rows of words or texts, not of {options.by}")
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
    first = next(iter(models.values()))
    return Surprisals(source_of(source, first.document), models if len(models) > 1 else {"": first}, options)


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
        start, stop       its place in the normalised text, in characters

    They come after the fields of the record, of which one with a name of these is called record_sentence, say. In nats,
    the columns are surprisal_nats, uncorrected_nats and entropy_nats. Columns of one of several models end in its name
    (surprisal_bits_lm), and those of previous words in _prev1, _prev2 and so on.

    empty: once the table was read, the numbers of the texts that have no rows. words: how many rows are words, and
    infrequent: the words among them that have no frequency, each with its number of rows; of tables with frequencies.
    """

    def __init__(self, source: Source, models: Mapping[str, Model], options: SurprisalOptions) -> None:
        self._source, self._models, self._options = source, models, options
        self.empty: list[int] = []
        self.words, self.infrequent = 0, Counter[str]()
        self._fields: Mapping[str, Any] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with showing(self._options.progress) as progress:
            for columns in self._blocks(progress):
                yield from rows_in(columns)

    def to_records(self) -> list[dict[str, Any]]:
        """All rows."""
        return list(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes .csv, .tsv, .jsonl or .parquet, by the name; all but the last also compressed. Raises OutputError."""
        from chainrule.base.arguments import as_path
        from chainrule.base.files import check_new_file

        target = as_path(path)
        check_table_format(target)
        check_new_file(target, overwrite=overwrite, inputs=getattr(self._source, "paths", ()))
        with table_file(target, self._example) as write, showing(self._options.progress) as progress:
            for columns in self._blocks(progress):
                write(columns)

    def notes(self) -> Iterator[str]:
        """Which words have no frequency, and which texts no rows, once the table was read."""
        if self.infrequent:
            some = ", ".join(word for word, _ in self.infrequent.most_common(_SHOWN))
            more = ", ..." if len(self.infrequent) > _SHOWN else ""
            yield (
                f"{self.infrequent.total():,} of {count_of(self.words, 'word')} have no frequency, or a count of 0; "
                f"their cells are empty: {some}{more}"
            )
        if self.empty:
            some = ", ".join(f"{number:,}" for number in self.empty[:_SHOWN])
            more = f" and {len(self.empty) - _SHOWN:,} more" if len(self.empty) > _SHOWN else ""
            texts = f"{count_of(len(self.empty), 'text')} without {self._options.by}"
            yield f"{texts}, of which the table has no rows: number {some}{more}; --ends has a row for each"

    def _example(self) -> dict[str, Any]:
        """A row with all columns: that of the end of an empty text."""
        options = replace(self._options, ends=True)
        by_model = [
            columns_of_block(model, block_of_texts([""]), options, suffix) for suffix, model in self._by_suffix()
        ]
        frequencies = self._options.frequencies
        counted = None if frequencies is None else WordFrequencies(frequencies)
        row = {name: values[0] for name, values in self._joined(by_model, 0, counted)[0].items()}
        return {**fields_beside(self._fields, row, self._field), **row}

    @property
    def _field(self) -> str:
        """The field of records that has the text."""
        return self._source.reading.text_field if isinstance(self._source, Corpus) else ""

    def _by_suffix(self) -> Iterator[tuple[str, Model]]:
        """The models, with the end of the names of their columns."""
        return ((f"_{name}" * bool(name), model) for name, model in self._models.items())

    def _blocks(self, progress: Progress) -> Iterator[Mapping[str, list[Any]]]:
        """The rows, some texts at a time."""
        inside, number = BlockProgress(progress, "scoring"), 0
        frequencies = self._options.frequencies
        counted = None if frequencies is None else WordFrequencies(frequencies)
        source = self._source
        read = source.with_fields().blocks_as_they_come if isinstance(source, Corpus) else source.blocks
        self.empty, self.words, self.infrequent, self._fields = [], 0, Counter(), {}

        def scored(piece: Block) -> tuple[Block, list[tuple[Columns, list[int]]]]:
            return piece, [columns_of_block(model, piece, self._options, suffix) for suffix, model in self._by_suffix()]

        # Networks have threads of their own and need much memory for each block.
        networks = [hasattr(model.language_model, "score_stream_with_unknown") for model in self._models.values()]
        each = map if any(networks) else map_in_order
        for block in read(inside, "scoring"):
            done = 0
            for piece, by_model in each(scored, block.pieces(_PART_BYTES)):
                columns, rows = self._joined(by_model, number, counted)
                if number == 0 and piece.fields:
                    self._fields = piece.fields[0]
                number += len(rows)
                yield from columns_beside(piece.fields or (), columns, rows, self._field)
                done += piece.text.size
                inside.report(done)

    def _joined(
        self, by_model: Sequence[tuple[Columns, list[int]]], before: int, counted: WordFrequencies | None
    ) -> tuple[Columns, list[int]]:
        """The columns of all models, and those that need no model; how many rows each text has. Raises TextError.

        before: the number of texts before these.
        """
        (columns, rows), *others = by_model
        for name, (own, own_rows) in zip([*self._models][1:], others, strict=True):
            if own_rows != rows:
                i = next(i for i, (one, other) in enumerate(zip(rows, own_rows, strict=True)) if one != other)
                raise TextError(
                    f"sentence {before + i + 1}: {name} reads {own_rows[i]} words, and {next(iter(self._models))} "
                    f"{rows[i]}; their tokenizers write the text in different ways, so its words cannot share rows"
                )
            columns |= {column: values for column, values in own.items() if column not in columns}
        columns["sentence"] = [number for number, size in enumerate(rows, before + 1) for _ in range(size)]
        self.empty += [number for number, size in enumerate(rows, before + 1) if not size]
        if counted is not None:
            words = columns["word"]
            values = counted.log_frequencies(words)
            is_word = [True] * len(words)
            if self._options.ends:
                for end in itertools.accumulate(rows):
                    is_word[end - 1] = False
            self.words += sum(is_word)
            rare = zip(words, values, is_word, strict=True)
            self.infrequent.update(word for word, value, counts in rare if counts and value is None)
            items = [*columns.items()]
            columns = {**dict(items[:4]), "log_frequency": values, **dict(items[4:])}
        spilled = [name for name in columns if name.startswith(_SPILLS)]
        for k, name in itertools.product(range(1, self._options.previous + 1), spilled):
            places = zip([None] * k + columns[name], columns["position"], strict=False)
            columns[f"{name}_prev{k}"] = [value if place > k else None for value, place in places]
        return columns, rows


def surprisal_column(options: SurprisalOptions) -> str:
    """The column of words' surprisals with their ends, which names any convention but ours."""
    convention = "" if options.convention == "chainrule" else f"{options.convention}_"
    return f"surprisal_{convention}{'nats' if options.nats else 'bits'}"


_SPILLS = ("length", "log_frequency", "surprisal_", "uncorrected_", "entropy_", "word_entropy_")


def columns_of_block(
    model: Model, block: Block, options: SurprisalOptions, suffix: str = ""
) -> tuple[Columns, list[int]]:
    """The columns of the texts of a block, see `Surprisals`, and how many rows each text has. Sentences have no number.

    suffix: of the names of columns that depend on the model.
    """
    import numpy as np

    from chainrule.evaluation.surprisal import read_block, score_alone, word_figures
    from chainrule.protocol import END

    by, unit = options.by, "nats" if options.nats else "bits"
    scale = -1.0 if options.nats else -1 / math.log(2)
    if by == "texts":
        encoded = model.tokenizer.encode_block(block)
        scored = score_alone(model.language_model, model.speller, model.tokenizer, block, encoded, only_spelled=True)
        stops = np.flatnonzero(encoded.ids == END) + 1
        starts = np.concatenate([[0], stops[:-1]])
        texts = [*block.documents()]
        return {
            "sentence": [0] * len(texts),
            "text": texts,
            f"surprisal_{unit}{suffix}": (scale * np.add.reduceat(scored.spelled, starts) + 0.0).tolist(),  # no -0
            f"tokens{suffix}": (stops - starts).tolist(),
            f"unknown_tokens{suffix}": np.add.reduceat(scored.unknown, starts, dtype=np.int64).tolist(),
        }, [1] * len(texts)
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
    if by == "words":
        parts = model.language_model, model.tokenizer, model.speller.unseen_types
        figures = word_figures(
            *parts, block, contexts, word_ends=options.word_ends, entropy=options.entropy, drawn=options.word_entropy
        )
    found = shown_units(model, block, by, contexts, only_spelled=True)
    sizes = np.diff(found.documents)
    kept = np.ones(len(found.shown), np.bool_)
    if not options.ends:
        kept[found.documents[1:] - 1] = False

    def column(values: ndarray) -> list[Any]:
        listed: list[Any] = values[kept].tolist()
        return listed

    def joined(parts: Iterable[ndarray | None]) -> ndarray | None:
        several = [part for part in parts if part is not None]
        return np.concatenate(several) if several else None

    starts, stops = found.characters
    columns: Columns = {
        "sentence": [0] * int(kept.sum()),
        "position": column(np.arange(1, kept.size + 1) - np.repeat(found.documents[:-1], sizes)),
        SINGULAR[by]: [shown for shown, is_kept in zip(found.shown, kept.tolist(), strict=True) if is_kept],
    }
    if by == "words":
        columns["length"] = column(stops - starts)
    corrections = joined(own.corrections for own in figures)
    if corrections is not None:
        columns[surprisal_column(options) + suffix] = column(scale * (found.spelled + corrections) + 0.0)  # no -0
    name = "uncorrected" if by == "words" else "surprisal"
    columns[f"{name}_{unit}{suffix}"] = column(scale * found.spelled + 0.0)
    of_tokens = contexts if by == "tokens" and options.entropy and contexts is not None else ()
    entropies, ranks = (joined(getattr(own, name) for own in (*figures, *of_tokens)) for name in ("entropies", "ranks"))
    if entropies is not None and ranks is not None:
        columns[f"entropy_{unit}{suffix}"] = column(-scale * entropies)
        columns[f"rank{suffix}"] = column(ranks)
    drawn = [own.of_words for own in figures if own.of_words is not None]
    if drawn:
        columns[f"word_entropy_{unit}{suffix}"] = column(-scale * np.concatenate([own.values for own in drawn]))
        errors = column(-scale * np.concatenate([own.errors for own in drawn]))
        columns[f"word_entropy_error_{unit}{suffix}"] = [*map(finite, errors)]
    columns |= {f"known{suffix}": column(~found.unknown), "start": column(starts), "stop": column(stops)}
    return columns, (sizes - (not options.ends)).tolist()


def words_of_texts(
    model: Model, texts: Sequence[str], options: SurprisalOptions | None = None
) -> list[list[dict[str, Any]]]:
    """The rows of the words of each text, as `surprisal` gives them, without `sentence`. Raises MarkerError."""
    columns, sizes = columns_of_block(model, block_of_texts(texts), options or SurprisalOptions())
    del columns["sentence"]
    rows = rows_in(columns)
    return [[*itertools.islice(rows, size)] for size in sizes]
