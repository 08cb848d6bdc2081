"""How labels of inputs are shown: as results of lines and rows, and drawn on pages."""
