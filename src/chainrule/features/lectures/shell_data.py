"""The verbs data, split, pixels and filter: make data sets, divide texts, turn pictures into text, choose documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import table
from chainrule.base.tables import text_table
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    Json,
    ModelMarkerRule,
    ModelTokenizerName,
    Number,
    Output,
    Overwrite,
    TextFiles,
    WholeNumber,
)
from chainrule.cli.shared.results import TO_SCREEN, ResultOptions
from chainrule.cli.shared.screen import print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    check_text_target,
    note_lost_fields,
    note_repairs,
    text_for,
    with_shares,
)
from chainrule.errors import prefix_errors
from chainrule.features.lectures.datasets import Name

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.text.tokenization.vocabulary import Markers

# What to do with each set next; {0} is the folder.
_NEXT: dict[str, str] = {
    "text": "chainrule train ngram {0}/train.txt -o lm/",
    "pairs": "chainrule train seq2seq --source {0}/train.en --target {0}/train.fr -o mt/ --minutes 2",
    "labels": "chainrule train classifier {0}/train.tsv -o opinions/ --network lstm --epochs 10 --test {0}/test.tsv",
    "trees": "chainrule train classifier {0}/train.txt -o phrases/ --network tree --unit node",
    "pictures": "chainrule train classifier {0}/train -o network/ --network lenet --activation relu --pooling max "
    "--epochs 30 --patience 30 --test {0}/test",
    "captions": "chainrule train classifier {0}/train.jsonl --unit box -o detector/ --network resnet --size 32 96 "
    "--stem large --blocks 1 1 --width 16 --epochs 8, and train caption --pictures {0}/train.jsonl --encoder detector/ "
    "-o captioner/ --width 64 --batch 32 --optimiser adamw --learning-rate 0.01 --steps 1000",
    "minimal-pairs": "chainrule train ngram {0}/train.txt -o lm/, and evaluate lm/ --minimal-pairs {0}/pairs.jsonl",
    "conversations": "chainrule train seq2seq --pairs {0}/train.jsonl -o talk/ --encoder lstm --decoder lstm "
    "--score dot --minutes 5, and chat talk/",
    "speech": "chainrule train speech {0}/train.tsv --valid {0}/valid.tsv -o speech/ --minutes 1, train ngram "
    "{0}/text.txt -o lm/, and evaluate speech/ {0}/test.tsv --lm lm/",
    "dates": "chainrule train seq2seq --pairs {0}/train.tsv -o dates/ --tokenizer character --minutes 2",
}


def data(
    name: Annotated[Name, Parameter(help="The data set, as above.")],
    /,
    *,
    output: Output,
    examples: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="How many examples to train on; for validation and testing, a tenth each."),
    ] = None,
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of all random choices.")] = 0,
    hard: Annotated[
        bool, Parameter(help="A harder form, on which models differ; of 200 examples or more.", negative=())
    ] = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write a small data set made by rule, to try commands without a download.

        $ chainrule data pairs -o pairs/

    text: Python's documentation, 2 MB, a line a document.
    pairs: English sentences and their French translations.
    labels: reviews, positive or negative, with "not" and "but".
    trees: such reviews in brackets, each phrase with its label.
    pictures: circles, squares and triangles, in a folder for each.
    captions: scenes of shapes, with captions, boxes and paragraphs.
    minimal-pairs: sentences, and pairs of a right and a wrong one.
    dates: dates as people write them, with their ISO form.
    conversations: somebody says a name and a town, and asks for them later.
    speech: sentences whose letters and digits are chords, in noise.

    With --hard, sentences are longer and reordered, verbs agree across clauses,
    reviews have several negations, shapes overlap, dates are in words,
    answers combine two turns, and chords are faster and in more noise.

    The same seed gives the same files on every machine.
    """
    from chainrule.features.lectures.data import data as write_data

    counts = write_data(name, output, examples=examples, seed=seed, hard=hard, overwrite=overwrite)
    shown = text_table(["file", "examples"], [[file, f"{count:,}"] for file, count in counts.items()])
    further = _NEXT[name].format(str(output).rstrip("/"))
    records = [{"file": file, "examples": count} for file, count in counts.items()]
    ResultOptions(json=json).show(table(f"{shown}\nnext: {further}", records))


def split(
    *texts: TextFiles,
    into: Annotated[
        tuple[str, ...],
        Parameter(
            help="The files to write, with their shares: train.txt=0.9 test.txt=0.1. Put texts before it.",
            consume_multiple=True,
            negative=(),
        ),
    ],
    reading: TextOptions = DEFAULT_READING,
    show: ResultOptions = TO_SCREEN,
) -> None:
    """Divide a text into parts, the same on every machine.

        $ chainrule split corpus.txt --into train.txt=0.9 test.txt=0.1

    Lines stay together in runs of 50, since a test line is too easy if its
    neighbours are in the training text. Records and whole files are assigned by the SHA-256
    of their text, so that copies stay together and each stays in its part when
    others are added. Parts are plain text, a document a line, or whole records
    if the name ends in .jsonl, .csv or .parquet, or .tsv where texts are
    records; all but .parquet may be compressed.
    """
    from chainrule.text.corpus.splits import write_split

    shares = dict(with_shares("--into", into))
    source = reading.corpus(*texts)
    if show.output is not None and str(show.output.absolute()) in {str(Path(name).absolute()) for name in shares}:
        raise CycloptsError(msg=f"--output and --into both name {show.output}; choose another name for the table.")
    show.check(*source.paths, *shares)
    with progress_bar() as progress:
        files = write_split(source, shares, overwrite=show.overwrite, progress=progress)
    note_lost_fields(source, *files)
    note_repairs(source)
    total = sum(file.documents for file in files.values())
    cells = [
        [name, f"{file.documents:,}", f"{file.documents / total:.2%}", f"{file.bytes:,}"]
        for name, file in files.items()
    ]
    records = [{"file": name, "documents": file.documents, "bytes": file.bytes} for name, file in files.items()]
    show.show(table(text_table(["part", "documents", "share", "bytes"], cells), records))


def pixels(
    source: Annotated[
        str,
        FILE,
        Parameter(help="Pictures: a folder, .jsonl, .jpg or .png; or a text with a picture a line."),
    ],
    /,
    *,
    output: Annotated[
        Path, Parameter(name=("--output", "-o"), help="A text to write, a picture a line; or a picture to draw, .png.")
    ],
    size: Annotated[
        tuple[int, ...],
        WholeNumber,
        Parameter(
            help="To write a text: height and width to scale pictures to; one number: both; by default 32.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    columns: Annotated[
        int | None, WholeNumber, Parameter(help="To draw a picture: pixels in a row; by default 32.")
    ] = None,
    levels: Annotated[int, WholeNumber, Parameter(help="Shades of grey.")] = 256,
    overwrite: Overwrite = False,
) -> None:
    """Write pictures as text for language models, or draw such text.

        $ chainrule pixels pictures/ -o pixels.txt --size 8 --levels 4

    Each picture becomes a line: the shades of its pixels, row by row. Any family
    of models learns from it; train grid, with --tokenizer whitespace and
    --columns, reads it as pictures. Bits per token are bits per dimension.

    To a target that ends in .png, lines such as chainrule generate prints are
    drawn as pictures, side by side; --columns says how wide each one is.
    """
    from chainrule.features.lectures.data import draw_pixels, write_pixels

    if output.suffix.lower() == ".png":
        if size:
            raise CycloptsError(msg="--size is for writing a text; a picture is drawn with --columns.")
        count = draw_pixels(
            source, output, columns=32 if columns is None else columns, levels=levels, overwrite=overwrite
        )
        print(f"{output}: {count:,} pictures drawn")
        return
    if columns is not None:
        raise CycloptsError(msg="--columns is for drawing a picture; a text is written with --size.")
    if len(size) > 2:
        raise CycloptsError(msg="--size takes one number, or a height and a width.")
    height, width = (size[0], size[-1]) if size else (32, 32)
    with progress_bar() as progress:
        count = write_pixels(
            source, output, size=(height, width), levels=levels, overwrite=overwrite, progress=progress
        )
    print(f"{output}: {count:,} pictures of {height * width:,} pixels each, in {levels} shades")


def filter_texts(
    *texts: TextFiles,
    model: Annotated[Path, Parameter(help="A model folder or ARPA file, trained on text like what to keep.")],
    keep: Annotated[
        float | None, Number, Parameter(help="Keep this share of the documents, above 0 and up to 1.")
    ] = None,
    below: Annotated[
        float | None, Number, Parameter(help="Keep documents that score at most this, in bits per token.")
    ] = None,
    difference: Annotated[
        Path | None, Parameter(help="A model of the other text: score by the difference of the cross-entropies.")
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="The file to write, perhaps compressed; .jsonl, .csv, .tsv or .parquet for whole records; by default "
            "standard output.",
        ),
    ] = None,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Keep the documents of a corpus that a model finds likeliest.

        $ chainrule filter corpus.txt --model lm/ --keep 0.3 -o likely.txt

    A document's score is its cross-entropy in bits per token, its end included
    and unknown tokens spelled; low is likely. With --difference, it is the
    cross-entropy under --model minus that under the other model, per token of
    --model (Moore and Lewis 2010): low is more like the first.

    Documents stay in order; of equal scores, the first are kept. --keep reads
    the text twice. A histogram of the scores is printed, to standard error
    where the documents go to standard output. A name in .jsonl, .csv or
    .parquet, or .tsv where texts are records, gets whole records; any other
    only their text.
    """
    from chainrule.features.corpus.filter import filter as keep_likeliest
    from chainrule.text.corpus.writing import check_format

    _check(texts, keep, below, output, json=json)
    source = text_for([model] if difference is None else [model, difference], reading, *texts)
    if output is not None:
        check_format(output, records=True)
        check_text_target(output, source, overwrite=overwrite)
    with progress_bar() as progress:
        found = keep_likeliest(
            source,
            _open_language_model(model, tokenizer, markers, progress),
            keep=keep,
            below=below,
            difference=None if difference is None else _open_language_model(difference, tokenizer, markers, progress),
            output=sys.stdout.buffer if output is None else output,
            progress=progress,
        )
    if output is not None:
        note_lost_fields(source, output)
    note_repairs(source)
    if json:
        print_json(found.as_json())
    else:
        print(found, file=sys.stderr if output is None else sys.stdout)


def _open_language_model(path: Path, tokenizer: str | None, markers: Markers | None, progress: Progress) -> Model:
    """Open a language model. Raises ModelFormatError; SettingError where it is not a language model."""
    model = open_model(path, tokenizer, markers, progress)
    with prefix_errors(str(path)):
        model.require_engine("continue")
    return model


def _check(texts: tuple[str, ...], keep: float | None, below: float | None, output: Path | None, *, json: bool) -> None:
    """Raise CycloptsError or SettingError where options contradict each other."""
    from chainrule.features.corpus.filter import check_limits

    if (keep is None) == (below is None):
        raise CycloptsError(msg="Give either --keep, a share, or --below, a score.")
    check_limits(keep, below)
    if keep is not None and "-" in texts:
        raise CycloptsError(msg="Standard input, -, can be read only once, and --keep reads twice; use --below.")
    if json and output is None:
        raise CycloptsError(msg="With --json, the documents need a file: give --output.")
