"""Reading times predicted by surprisal."""
