"""What ``duly init`` writes: an app in parts that are put together for a provider and a store."""
