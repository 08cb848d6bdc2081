"""The explorer: what a model makes of a text, as plain records, and the page that shows them."""
