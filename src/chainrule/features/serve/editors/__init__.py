"""The language server: completion and correction of texts in editors."""
