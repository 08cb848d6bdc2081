"""The command line: one file a verb, thin. Only here is anything printed."""
