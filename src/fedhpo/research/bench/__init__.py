"""The bench: methods side by side on tables, under every kind of noise, with errors that can be trusted."""

from fedhpo.research.bench.entries import ENTRIES
from fedhpo.research.bench.results import Results
from fedhpo.research.bench.run import bench
from fedhpo.research.bench.settings import SUITES, Setting, Suite

__all__ = ["ENTRIES", "SUITES", "Results", "Setting", "Suite", "bench"]
