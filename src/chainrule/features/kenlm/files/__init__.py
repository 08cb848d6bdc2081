"""Binary files of KenLM: read as n-gram models, and queried word by word."""
