"""What chainrule has to know of the package: a kind of models, and the verb that trains it."""

from chainrule.kinds import CAUSAL_MODEL, TRAIN_ON_TEXT, Kind, Lazy, Plugin, Verb

CONFIG = Lazy("chainrule_markov.model:MarkovConfig")
KIND = Kind("markov", "a variable-length Markov model", CAUSAL_MODEL, Lazy("chainrule_markov.model:MARKOV"), (CONFIG,))
VERB = Verb("train markov", "Models", "A variable-length Markov model.", TRAIN_ON_TEXT, CONFIG)
PLUGIN = Plugin(kinds=[KIND], verbs=[VERB])
