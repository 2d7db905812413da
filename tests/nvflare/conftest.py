"""Lets the tests here import their helpers: `import nvflare_cases`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

#: A script of NVFlare's Client API, which only runs inside a client.
collect_ignore_glob = ["hello/*"]
