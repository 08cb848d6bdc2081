"""Trees and graphs: files of them, networks over them, and a language model of trees."""

USES = ("classify",)
