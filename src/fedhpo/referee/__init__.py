"""The referee: whether a candidate is better than a base, from paired trainings."""
