"""What people do with language models, against the waist. Imports no concrete model."""
