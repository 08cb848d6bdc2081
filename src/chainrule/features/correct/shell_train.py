"""chainrule train channel PAIRS: learns how words are misspelled from pairs of wrong and right spellings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.options import Needs, Overwrite, flag
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.features.correct.channel.ready import CHANNELS
from chainrule.features.correct.options import TrainChannelOptions, TrainGrammarOptions


def channel(
    pairs: Annotated[Path, Parameter(help="Lines wrong<TAB>right, or wrong<TAB>right<TAB>count.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The JSON file to write.")],
    grammar: Annotated[
        bool, Parameter(negative=(), help="Learn errors of grammar from wrong and right texts, not words.")
    ] = False,
    inflections: Annotated[Path | None, flag(TrainGrammarOptions, "inflections"), Needs("grammar")] = None,
    channel: Annotated[str | None, flag(TrainChannelOptions, "prior")] = None,
    rounds: Annotated[int | None, flag(TrainChannelOptions, "rounds")] = None,
    overwrite: Overwrite = False,
) -> None:
    """A model of spelling errors, learned from pairs, for chainrule correct.

        $ chainrule train channel pairs.tsv -o channel.json

    A channel gives the probability of each misspelling of each word. Its rules
    rewrite one or two letters, and distinguish the beginning, middle and end of
    a word; EM learns their probabilities from all ways to explain the pairs.
    With few pairs, --channel says what errors to expect. Pairs may be whole
    lines: then the words that differ are learned from. All text is lowercased.

    With --grammar, pairs are whole texts, and the changes of words are counted:
    deleted, inserted, replaced, or in another form.
    """
    from chainrule.base.files import check_new_file
    from chainrule.features.correct.train_channel import read_error_pairs, train_channel, train_grammar

    check_new_file(output, overwrite=overwrite, inputs=[str(pairs)])
    if grammar:
        for name, value in (("--rounds", rounds), ("--channel", channel)):
            if value is not None:
                raise CycloptsError(msg=f"{name} is for channels of letters, not for --grammar.")
        rules = train_grammar(pairs, output, inflections=inflections).rules
        print(f"{output}: a channel of grammar with {len(rules):,} rules")
        return
    read = read_error_pairs(pairs)
    if read.left_out:
        note(f"{count_of(read.left_out, 'pair')} left out: no word of them goes wrong")
    given = {} if rounds is None else {"rounds": rounds}
    prior: Any = channel if channel is None or channel in CHANNELS else Path(channel)
    with progress_bar() as progress:
        trained = train_channel(pairs, output, prior=prior, **given, progress=progress)
    print(f"{output}: a channel of {len(trained.rules):,} rules, learned from {count_of(len(read.pairs), 'pair')}")
