"""chainrule data NAME -o FOLDER: small data sets made by rule, to try every command without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.base.tables import text_table
from chainrule.cli.shared.arguments import Json, Overwrite, WholeNumber
from chainrule.cli.shared.screen import print_json
from chainrule.datasets import Name

# What to do with each set next; {0} is the folder.
_NEXT: dict[str, str] = {
    "text": "chainrule train ngram {0}/train.txt -o lm/",
    "pairs": "chainrule train translation --source {0}/train.en --target {0}/train.fr -o mt/ --minutes 2",
    "labels": "chainrule train classifier {0}/train.tsv -o opinions/ --network lstm --epochs 10 --test {0}/test.tsv",
    "trees": "chainrule train classifier {0}/train.txt -o phrases/ --network tree --unit node",
    "pictures": "chainrule train classifier {0}/train -o network/ --network lenet --test {0}/test",
    "captions": "chainrule train caption --pictures {0}/train.jsonl -o captioner/ --encoder resnet --minutes 2 "
    "--encoder-size 32 96 --encoder-stem large --encoder-blocks 1 1 --encoder-width 16 --width 64",
    "minimal-pairs": "chainrule train ngram {0}/train.txt -o lm/, and evaluate lm/ --minimal-pairs {0}/pairs.jsonl",
    "conversations": "chainrule train translation --pairs {0}/train.jsonl -o talk/ --encoder lstm --decoder lstm "
    "--score dot --minutes 5, and chat talk/",
    "dates": "chainrule train translation --pairs {0}/train.tsv -o dates/ --tokenizer character --minutes 2",
}


def data(
    name: Annotated[Name, Parameter(help="The data set, as above.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The folder to write.")],
    examples: Annotated[
        int | None,
        WholeNumber,
        Parameter(help="How many examples to train on; for validation and testing, a tenth each."),
    ] = None,
    seed: Annotated[int, WholeNumber, Parameter(help="The seed of all random choices.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write a small data set made by rule, to try commands without a download.

        $ chainrule data pairs -o pairs/

    text: Python's own documentation, 2 MB, a line a document.
    pairs: English sentences and their French translations.
    labels: reviews, positive or negative, with "not" and "but".
    trees: such reviews in brackets, each phrase with its label.
    pictures: circles, squares and triangles, in a folder for each.
    captions: scenes of shapes, with captions, boxes and paragraphs.
    minimal-pairs: sentences, and pairs of a right and a wrong one.
    dates: dates as people write them, with their ISO form.
    conversations: a name and a town are told, and asked for later.

    The same seed gives the same files on every machine; only the text differs
    between versions of Python.
    """
    from chainrule.api.texts.data import data as write_data

    counts = write_data(name, output, examples=examples, seed=seed, overwrite=overwrite)
    if json:
        print_json([{"file": file, "examples": count} for file, count in counts.items()])
        return
    print(text_table(["file", "examples"], [[file, f"{count:,}"] for file, count in counts.items()]))
    print(f"next: {_NEXT[name].format(str(output).rstrip('/'))}")
