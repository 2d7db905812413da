"""Flower's strategies as aggregators: they make a trial's next model from its clients' replies."""
