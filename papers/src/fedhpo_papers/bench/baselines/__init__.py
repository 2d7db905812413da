"""Methods of others, and plain remedies, that ours must beat."""
