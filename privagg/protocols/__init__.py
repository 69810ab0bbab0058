"""Multi-party protocols: parties, messages and drivers; one folder each."""
