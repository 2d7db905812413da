"""The parts of `benchmarks/hostile.py`."""
