"""The parts of `benchmarks/chaos.py`: random studies, starts, kills, damage, and what came of them."""
