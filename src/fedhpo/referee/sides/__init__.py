"""What can be compared: studies, runs, Flower apps, NVFlare jobs and functions, all behind one protocol."""
