"""How good a model is: measured against the waist, whatever the model."""
