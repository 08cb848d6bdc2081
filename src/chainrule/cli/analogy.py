"""chainrule analogy VECTORS A B C: A is to B as C is to what?"""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from chainrule.cli.nearest import Restrict, VectorsPath
from chainrule.cli.shared.arguments import Json, WholeNumber
from chainrule.cli.shared.screen import on_one_line, print_json, progress_bar

Word = Annotated[str, Parameter(help="One word of the vocabulary.")]


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
    top: Annotated[int, WholeNumber, Parameter(help="How many words to show, best first.")] = 10,
    restrict: Restrict = None,
    json: Json = False,
) -> None:
    """Solve a word analogy with word vectors: A is to B as C is to what?

        $ chainrule analogy words/ man king woman

    The three words themselves are never an answer.

    Columns: the score of the rule; the word.
    """
    from chainrule.api.vectors.word_vectors import load_vectors

    with progress_bar() as progress:
        ranked = load_vectors(vectors, progress=progress).analogy(a, b, c, rule=rule, top=top, restrict=restrict)
    for word, score in ranked:
        if json:
            print_json({"word": word, "score": score})
        else:
            print(f"{score:.4f}\t{on_one_line(word)}")
