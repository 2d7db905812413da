"""The cells of `benchmarks/settings.py`: keys from the schema, contexts to set them in, and what was seen."""
