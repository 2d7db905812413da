"""What a lying client says, where it lies, and what comes of it: parts of `benchmarks/forged.py`."""
