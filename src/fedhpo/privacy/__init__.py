"""Privacy: mechanisms, accounting, noise at the client."""
