"""Queries: work at the clients that is not a round."""
