"""Every error that chainrule raises on purpose.

A message says what was wrong, where, what was expected and what to do.
"""


class ChainruleError(Exception):
    """The base of all; the command line prints its message in one line and leaves with status 1."""


class TextError(ChainruleError):
    """A text cannot be read as asked: missing, empty, not UTF-8, or with a marker such as <s> in it."""


class ModelFormatError(ChainruleError):
    """A model file is broken, or was written by a version that this one does not know."""


class OutputError(ChainruleError):
    """A result cannot be written where it was asked for."""


class SettingError(ChainruleError, ValueError):
    """A setting is outside its range, or two settings contradict each other."""


class EstimationError(ChainruleError):
    """The data do not suffice for what was to be estimated from them."""
