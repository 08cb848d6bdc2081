"""Names of commands, models, options and values in other programs, and what they are called here."""

USES = ()
