"""From nothing to a tuned model of one's own, by the commands of the README, with the seconds of each.

    python benchmarks/first_minutes.py [--work DIRECTORY]

A clone of this repository's last commit, an empty home directory, no variables but PATH and those that pip
needs. The two blocks of commands are read from the README and typed as they stand into one shell. Most of the
time is pip's, which installs some 200 packages.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TIMED = """
begin=$(date +%s.%N)
{line}
printf '@@ %s s  %s\\n' "$(echo "$(date +%s.%N) - $begin" | bc)" {quoted}
"""


def commands(readme: str) -> list[str]:
    """The lines of the README's first block, and of the one that begins with activating the environment."""
    blocks = re.findall(r"^```\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    chosen = [
        next(one for one in blocks if "git clone" in one),
        next(one for one in blocks if "activate" in one),
    ]
    return [line.partition("  #")[0].strip() for one in chosen for line in one.splitlines() if line.strip()]


def main() -> int:
    """Type the commands; the exit code is that of the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="where to (default: a new directory)")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="fedhpo-first-"))
    home = work / "home"
    home.mkdir(parents=True)
    script = ["set -e"]
    for line in commands((ROOT / "README.md").read_text(encoding="utf-8")):
        typed = line.replace("REPOSITORY", str(ROOT))
        quoted = "'" + line.replace("'", "'\\''") + "'"
        script.append(_TIMED.format(line=typed, quoted=quoted))
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_"))}
    kept["PATH"] = f"{sys.base_prefix}/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=work, env={**kept, "HOME": str(home)}, text=True, check=False
    )
    print(f"{'all commands worked' if done.returncode == 0 else 'a command failed'}; see {work}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
