"""Lets the tests here, and the processes they start, import their helpers: `import golden_cells`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

#: What runs inside a client of NVFlare's, or as a Flower app, only.
collect_ignore_glob = ["golden_script.py", "app/*"]
