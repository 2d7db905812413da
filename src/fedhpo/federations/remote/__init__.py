"""Clients that are asked by messages, whatever brings these: Flower, NVFlare."""
