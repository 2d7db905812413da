"""Lets the tests here import their helpers: `import own_queries`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
