"""Search: what a method works with: trials, evaluations, selection."""
