"""What every other package may use, and what uses none of them: errors, random streams, checks."""
