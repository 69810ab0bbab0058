"""Learning from aggregate responses."""
