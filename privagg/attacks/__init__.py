"""Audits: what an aggregator, and those who collude with it, could learn of the inputs."""
