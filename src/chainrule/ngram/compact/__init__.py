"""The quantised table in few bits."""
