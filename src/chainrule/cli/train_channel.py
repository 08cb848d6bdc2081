"""chainrule train channel PAIRS: learns how words are misspelled from pairs of wrong and right spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Overwrite, WholeNumber
from chainrule.cli.screen import count_of, note, progress_bar


def channel(
    pairs: Annotated[Path, Parameter(help="Lines wrong<TAB>right, or wrong<TAB>right<TAB>count.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The JSON file to write.")],
    rounds: Annotated[int, WholeNumber, Parameter(help="Rounds of EM.")] = 8,
    overwrite: Overwrite = False,
) -> None:
    """A model of spelling errors, learned from pairs, for chainrule correct.

        $ chainrule train channel pairs.tsv -o channel.json

    A channel gives the probability of each misspelling of each word. Its rules
    rewrite one or two letters, and distinguish the beginning, middle and end of
    a word; EM learns their probabilities from all ways to explain the pairs.
    Words are put in lower case; pairs of several words are left out.
    """
    from chainrule.api.train_channel import read_error_pairs, train_channel
    from chainrule.base.files import check_new_file

    check_new_file(output, overwrite=overwrite, inputs=[str(pairs)])
    read = read_error_pairs(pairs)
    if read.left_out:
        note(f"{count_of(read.left_out, 'pair')} left out: with several words, or with twice the same")
    with progress_bar() as progress:
        trained = train_channel(pairs, output, rounds=rounds, progress=progress)
    print(f"{output}: a channel of {len(trained.rules):,} rules, learned from {count_of(len(read.pairs), 'pair')}")
