"""Who leads: a lease on one blob, the epoch in it, the election, and leadership as a listener or a lock."""
