"""chainrule odd VECTORS WORD WORD WORD ...: which does not belong with the others."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.nearest import VectorsPath
from chainrule.cli.shared.arguments import Json
from chainrule.cli.shared.screen import on_one_line, print_json, progress_bar


def odd(
    vectors: VectorsPath,
    /,
    *words: Annotated[str, Parameter(help="Three words or more, one of which does not belong.")],
    json: Json = False,
) -> None:
    """Find the word that does not belong with the others, by word vectors.

        $ chainrule odd words/ breakfast lunch table dinner

    Columns: the cosine with the mean of all; the word. The odd one comes first.
    """
    from chainrule.api.vectors.word_vectors import load_vectors

    with progress_bar() as progress:
        ranked = load_vectors(vectors, progress=progress).odd(words)
    for word, score in ranked:
        if json:
            print_json({"word": word, "score": score})
        else:
            print(f"{score:.4f}\t{on_one_line(word)}")
