"""The parts of `benchmarks/privacy_audit.py`."""
