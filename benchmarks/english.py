"""Sentences that must be read twice: patterns of English that no software manual would have.

    python benchmarks/english.py [--show] [--most 30]

Counts the lines of docstrings, comments, messages and pages that hold one of the patterns, and exits with 1
where there are more than `--most`. A script finds patterns, not style: read what you write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What is read: sources, pages, and the papers' project. Records hold some sentences for good.
PLACES = ("src/fedhpo/**/*.py", "papers/src/**/*.py", "docs/**/*.md", "*.md", "examples/**/*.py")
LEFT_OUT = ("CHANGELOG.md", "docs/reproductions/", "protocol/reasons.py", "benchmarks/english.py")

PATTERNS = {
    "an impersonal passive": r"(?<!when )(?<!if )\bit is (waited|gone through|looked|said|told)\b",
    "'that is none': say what it is": r"\bthat (is|are) none\b|\bnone of (torch|scikit-learn|numpy)'s\b",
    "'a X that is no Y': a non-Y X": r"\b(progress|model|class|column|trial|file) that (is|was) no\b",
    "'is said so': the result says so": r"\b(is|are|was) said so\b",
    "'hangs on': depends on": r"\bhangs? on (it|them|this|that|the)\b",
    "'what X says of Y': X's Y": r"^\W*What .{1,40} (says|tells|said|told) of\b",
    "'no better than to': does not beat": r"\bno (better|worse) than to\b",
    "'as what ... may be': because": r"\bas what\b",
    "'is heard': the server receives": r"\b(is|are|was) heard (of|from)\b",
}


def found() -> list[tuple[str, int, str, str]]:
    """File, line, pattern and text of everything that matches."""
    lines = []
    for place in PLACES:
        for path in sorted(ROOT.glob(place)):
            name = str(path.relative_to(ROOT))
            if any(one in name for one in LEFT_OUT):
                continue
            for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                for pattern, expression in PATTERNS.items():
                    if re.search(expression, text):
                        lines.append((name, number, pattern, text.strip()))
    return lines


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="print every line")
    parser.add_argument("--most", type=int, default=30, help="lines that are allowed (default: 30)")
    options = parser.parse_args()
    lines = found()
    for name, number, pattern, text in lines if options.show else ():
        print(f"{name}:{number}: {text}\n    {pattern}")
    for pattern, count in Counter(pattern for *_, pattern, _ in lines).most_common():
        print(f"{count:4}  {pattern}")
    print(f"{len(lines)} lines, at most {options.most}")
    return int(len(lines) > options.most)


if __name__ == "__main__":
    sys.exit(main())
