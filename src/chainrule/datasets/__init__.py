"""Small data sets made by rule, the same on every machine, so that every command can be tried without a download."""
