"""What helps to test methods, federations and runs: ours, and users' own."""

from fedhpo.testing.toy import ToyFederation

__all__ = ["ToyFederation"]
