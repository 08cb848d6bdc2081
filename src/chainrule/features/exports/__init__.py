"""N-gram models as files of other programs, besides ARPA: automata of OpenFst, word lists of Android keyboards."""

USES = ()
