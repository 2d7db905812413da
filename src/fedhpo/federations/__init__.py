"""Federations: the runtimes that understand the protocol."""
