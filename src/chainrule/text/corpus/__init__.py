"""Files and streams to documents."""
