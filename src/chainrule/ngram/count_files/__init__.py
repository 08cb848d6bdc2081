"""Files of counts, read and written."""
