"""One call from a federation and a space to the best config: `fedhpo.tune`, and what it gives."""
