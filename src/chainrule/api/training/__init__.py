"""Trains models of every family, further too, with a record of the training."""
