"""Lets the tests here import their helpers: `import nvflare_cases`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
