"""chainrule analogy VECTORS A B C: what C is to, as A is to B."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from chainrule.cli.arguments import Json, WholeNumber
from chainrule.cli.nearest import Restrict, VectorsPath
from chainrule.cli.screen import print_json, progress

Word = Annotated[str, Parameter(help="One word, as it stands in the vocabulary.")]


def analogy(
    vectors: VectorsPath,
    a: Word,
    b: Word,
    c: Word,
    /,
    *,
    rule: Annotated[
        Literal["add", "multiply"],
        Parameter(help="add: 3CosAdd, b - a + c; multiply: 3CosMul (Levy and Goldberg 2014)."),
    ] = "add",
    top: Annotated[int, WholeNumber, Parameter(help="How many are shown, the best first.")] = 10,
    restrict: Restrict = None,
    json: Json = False,
) -> None:
    """What a word is to, as one is to another, by word vectors.

    A is to B as C is to the words that are shown: man king woman gives queen,
    if all went well. The three themselves are never an answer.

    Columns: the score of the rule; the word.
    """
    from chainrule.api.word_vectors import load_vectors

    with progress() as told:
        found = load_vectors(vectors, progress=told).analogy(a, b, c, rule=rule, top=top, restrict=restrict)
    for word, score in found:
        if json:
            print_json({"word": word, "score": score})
        else:
            print(f"{score:.4f}\t{word}")
