"""Sensor networks."""
