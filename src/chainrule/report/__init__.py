"""Results for people to read: tables, pages, drawings and model cards."""
