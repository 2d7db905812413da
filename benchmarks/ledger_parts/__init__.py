"""The parts of `benchmarks/ledger.py`."""
