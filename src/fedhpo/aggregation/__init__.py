"""Aggregation: how clients' updates become a step of the server's model."""
