"""Models that are cut into shards: how they are cut and opened, and look-ups in one shard."""
