"""Locational differential privacy: aggregates per region under one honest budget."""
