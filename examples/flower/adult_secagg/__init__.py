"""Logistic regression on a census table, federated, under secure aggregation."""
