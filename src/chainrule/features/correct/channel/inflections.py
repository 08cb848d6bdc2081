"""The forms of a word: go, goes, went, gone, going. By rules of English spelling among words that are known, or from a
file.

The rules know no parts of speech: `evening` counts as a form of `even` if both are known. What fits is left to a
language model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chainrule.errors import TextError
from chainrule.text.corpus.plain_text import lines_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from os import PathLike

_SHORTEST = 3  # letters of a base form, but for those of IRREGULAR
_ENTRY = re.compile(r"(\S+) [NVA]\??: (.+)")  # AGID: go V: went | gone | going | goes
_REMARK = re.compile(r"\{[^}]*\}|[~<!?]|\s\d+(?:\.\d+)?|\d")
_WHAT = "a file with the forms of a word in each line: go goes went gone"
_FORMS = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")

_WITHOUT_FORMS = """
about all and any because before but each every for from her here hers him his how into its just mine nor not off one
only onto other our ours out over she since some such than that the their them then there these they this those though
through too under until upon very was were what when where which while who whom whose why with would you your yours
can could may might must shall should will
"""

IRREGULAR = """
be am is are was were been being 's|have has had having|do does did done doing|go goes went gone going
arise arises arose arisen arising|awake awakes awoke awoken|bear bears bore borne bearing|beat beats beaten beating
become becomes became becoming|begin begins began begun beginning|bend bends bent bending|bind binds bound binding
bite bites bit bitten biting|blow blows blew blown blowing|break breaks broke broken breaking
bring brings brought bringing|build builds built building|burn burns burnt burned burning|buy buys bought buying
catch catches caught catching|choose chooses chose chosen choosing|come comes came coming|cost costs costing
creep creeps crept creeping|deal deals dealt dealing|dig digs dug digging|draw draws drew drawn drawing
dream dreams dreamt dreamed dreaming|drink drinks drank drunk drinking|drive drives drove driven driving
eat eats ate eaten eating|fall falls fell fallen falling|feed feeds fed feeding|feel feels felt feeling
fight fights fought fighting|find finds found finding|flee flees fled fleeing|fly flies flew flown flying
forbid forbids forbade forbidden|forget forgets forgot forgotten forgetting|forgive forgives forgave forgiven
freeze freezes froze frozen freezing|get gets got gotten getting|give gives gave given giving
grow grows grew grown growing|hang hangs hung hanged hanging|hear hears heard hearing|hide hides hid hidden hiding
hold holds held holding|keep keeps kept keeping|know knows knew known knowing|lay lays laid laying
lead leads led leading|learn learns learnt learned learning|leave leaves left leaving|lend lends lent lending
let lets letting|lie lies lay lain lying|light lights lit lighted lighting|lose loses lost losing
make makes made making|mean means meant meaning|meet meets met meeting|pay pays paid paying
put puts putting|read reads reading|ride rides rode ridden riding|ring rings rang rung ringing
rise rises rose risen rising|run runs ran running|say says said saying|see sees saw seen seeing
seek seeks sought seeking|sell sells sold selling|send sends sent sending|set sets setting
shake shakes shook shaken shaking|shine shines shone shining|shoot shoots shot shooting
show shows showed shown showing|shut shuts shutting|sing sings sang sung singing|sink sinks sank sunk sinking
sit sits sat sitting|sleep sleeps slept sleeping|slide slides slid sliding|speak speaks spoke spoken speaking
speed speeds sped speeding|spend spends spent spending|spread spreads spreading|stand stands stood standing
steal steals stole stolen stealing|stick sticks stuck sticking|strike strikes struck stricken striking
swear swears swore sworn swearing|sweep sweeps swept sweeping|swim swims swam swum swimming
swing swings swung swinging|take takes took taken taking|teach teaches taught teaching|tear tears tore torn tearing
tell tells told telling|think thinks thought thinking|throw throws threw thrown throwing
understand understands understood understanding|wake wakes woke woken waking|wear wears wore worn wearing
win wins won winning|write writes wrote written writing
man men|woman women|child children|person people persons|foot feet|tooth teeth|goose geese|mouse mice
life lives|wife wives|knife knives|leaf leaves|half halves|shelf shelves|self selves|thief thieves
good better best well|bad worse worst badly|much more most many|little less least|far farther farthest further
"""


class Inflections:
    """Families of forms. A form may belong to several: leaves, of leaf and of leave."""

    def __init__(self, families: Iterable[Iterable[str]]) -> None:
        self._others: dict[str, dict[str, None]] = {}
        for family in families:
            forms = list(dict.fromkeys(family))
            for form in forms if len(forms) > 1 else ():
                self._others.setdefault(form, {}).update(dict.fromkeys(other for other in forms if other != form))

    def __len__(self) -> int:
        return len(self._others)

    def forms(self) -> list[str]:
        """Return all forms."""
        return list(self._others)

    def others(self, form: str) -> list[str]:
        """Return the other forms of the words that a form in lower case belongs to."""
        return list(self._others.get(form, ()))

    def among(self, words: Collection[str]) -> Inflections:
        """Return the same, without other forms than those that are known."""
        known = Inflections(())
        for form, others in self._others.items():
            if kept := {other: None for other in others if other in words}:
                known._others[form] = kept
        return known


def english_inflections(words: Collection[str]) -> Inflections:
    """Return the families of forms among words in lower case: by a list, or the rules for -s, -ed, -ing, -er, -est,
    -ly.
    """
    irregular = [line.split() for line in IRREGULAR.replace("\n", "|").split("|")]
    without = frozenset(_WITHOUT_FORMS.split())
    has_own = {form for family in irregular for form in family}
    families = irregular + [
        [base, *(form for form in _regular(base) if form not in has_own and form not in without)]
        for base in words
        if len(base) >= _SHORTEST and base.isalpha() and base not in has_own and base not in without
    ]
    return Inflections(families).among(words if isinstance(words, (set, frozenset, dict)) else frozenset(words))


def _regular(base: str) -> Iterator[str]:
    """Yield the forms that a word has if it is a regular one of any part of speech."""
    stem, is_silent = (base[:-1], True) if base.endswith("e") else (base, False)
    if base.endswith("y") and base[-2] not in "aeiou":
        yield from (f"{base[:-1]}{ending}" for ending in ("ies", "ied", "ier", "iest", "ily"))
        yield f"{base}ing"
        return
    yield f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"
    if base.endswith("o"):
        yield f"{base}s"
    yield from (f"{stem}{ending}" for ending in ("ed", "ing", "er", "est"))
    yield f"{base}ly"
    if base.endswith("le"):
        yield f"{stem}y"
    if not is_silent and base[-1] not in "aeiouwxy" and base[-2] in "aeiou":
        yield from (f"{base}{base[-1]}{ending}" for ending in ("ed", "ing", "er", "est"))


def read_inflections(path: str | PathLike[str]) -> Inflections:
    """Return inflections from a file: the forms of a word in each line, or the lines of AGID (go V: went | gone).

    Raises TextError.
    """
    families = []
    for line in lines_of(path):
        entry = _ENTRY.fullmatch(line)
        text = f"{entry[1]} {entry[2]}" if entry else line
        families.append(_FORMS.findall(_REMARK.sub(" ", text).lower()))
    inflections = Inflections(families)
    if not len(inflections):
        raise TextError(f"{path}: no line has two words; expected {_WHAT}")
    return inflections
