"""From ids to a trained network: batches, optimisers, schedules, checkpoints, one process or many."""
