"""Looking at streams, repairing and clearing them."""
