"""Programs of others that pages bring along, each with its licence."""
