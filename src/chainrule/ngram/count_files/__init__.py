"""Reads and writes files of n-gram counts."""
