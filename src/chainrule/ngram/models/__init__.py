"""The n-gram models behind the waist."""
