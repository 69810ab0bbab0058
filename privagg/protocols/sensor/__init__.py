"""Sensor."""
