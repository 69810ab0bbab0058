"""Secure aggregation by pairwise masks: the server learns a sum and no single input."""
