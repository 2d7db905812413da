"""The bench: methods side by side on tables, under every kind of noise, with errors that can be trusted."""

from fedhpo_papers.bench.entries import ENTRIES
from fedhpo_papers.bench.results import Results
from fedhpo_papers.bench.run import bench
from fedhpo_papers.bench.settings import SUITES, Setting, Suite

__all__ = ["ENTRIES", "SUITES", "Results", "Setting", "Suite", "bench"]
