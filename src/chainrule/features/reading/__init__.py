"""Tables of surprisal, and reading times predicted by it."""

USES = ()
