"""Gradient inversion: whose data can be read from what the server sees?"""
