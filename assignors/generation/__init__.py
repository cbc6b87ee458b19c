"""Facts of one generation: subscriptions, partitions of members, balance, violations."""
