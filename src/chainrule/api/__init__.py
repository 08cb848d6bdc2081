"""What users call from Python: one module for each verb, named as on the command line."""
