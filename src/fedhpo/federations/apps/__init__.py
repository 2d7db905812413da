"""Flower apps as they are: their own training, strategy, config and metrics, tuned without a changed line."""
