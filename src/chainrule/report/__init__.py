"""Results for people to read: tables and model cards."""
