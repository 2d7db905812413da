"""Stand-ins for the data and weights of Flower's example apps, and how each app is tuned."""
