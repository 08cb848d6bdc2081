"""How figures look: plots, tables and the templates of pages; this room knows no model and no measurement."""
