"""The compact layout of n-gram tables: quantised and bit-packed."""
