"""Local training, aggregation and evaluation on this machine."""
