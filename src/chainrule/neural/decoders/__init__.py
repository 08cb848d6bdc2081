"""What writes a target while it looks at a source."""
