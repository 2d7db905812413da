"""Makes `order_cases` importable: tests use it, and the studies in it name its function."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
