"""The parts of `benchmarks/engine.py`."""
