"""A store is read: a query's version, and the look-ups of its tasks."""
