"""Context encoders: f(w_1 .. w_i-1), a file for each family."""
