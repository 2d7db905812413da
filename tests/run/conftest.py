"""Makes `small_method` importable: tests run it in this process, and as a program."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
