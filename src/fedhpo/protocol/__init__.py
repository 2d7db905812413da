"""Protocol: what federations, methods, samplers, schedules and policies are to each other."""
