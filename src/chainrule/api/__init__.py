"""What users call from Python: one module a verb, with the names of the command line's verbs."""
