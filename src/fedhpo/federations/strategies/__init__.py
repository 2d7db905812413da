"""Flower's strategies as what makes a trial's next model from its clients' replies."""
