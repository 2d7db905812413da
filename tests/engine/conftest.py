"""Lets the tests here import each other's cases."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
