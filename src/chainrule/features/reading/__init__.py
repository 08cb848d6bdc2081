"""Reading times predicted by surprisal."""

USES = ()
