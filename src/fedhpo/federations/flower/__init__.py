"""The federation of real clients behind a Flower grid."""
