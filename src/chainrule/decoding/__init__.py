"""Getting text out of a model: written once, against the waist. Imports no concrete model."""
