"""Chat: conversations in the form that a model was taught to talk in."""
