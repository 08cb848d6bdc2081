"""Networks that label texts, trees, pictures and graphs, trained from scratch."""
