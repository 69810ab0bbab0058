"""Conformance kits: dishonest parties to hold an implementation of a protocol against."""
