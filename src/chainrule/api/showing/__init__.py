"""Pictures and pages of what a model is and does: attention, layers, gates, trees."""
