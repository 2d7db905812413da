"""The parts of `benchmarks/fuzz.py`: mutations, and the kinds of cases that use them."""
