"""The parts of `benchmarks/finetune.py`."""
