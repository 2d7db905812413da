"""With learners, keys of [server] and [client] that nobody honours are refused before the run."""

from __future__ import annotations

import sys

from fedhpo import InputError, Study

BASE = {
    "data": {"name": "synthetic", "clients": 4, "samples": 40, "dimension": 4, "classes": 2},
    "model": {"name": "svm"},
    "space": {},
    "budget": {"rounds": 1, "total": 2, "cohort": 3},
    "method": {"name": "random"},
}
CASES = {
    "server.aggregation": {"server": {"aggregation": "median"}},
    "server.clip_norm": {"server": {"clip_norm": 0.1}},
    "server.optimiser": {"server": {"optimiser": "fedadam"}},
    "server.weighting": {"server": {"weighting": "uniform"}},
    "client.open": {"client": {"open": True}},
}


def refused(key: str, tables: dict) -> bool:
    """Whether the study is refused, and the message names the key."""
    try:
        Study.from_dict({**BASE, **tables}).tune(workers=0)
    except InputError as error:
        return key in str(error)
    return False


def main() -> int:
    """Try each of them."""
    accepted = [key for key, tables in CASES.items() if not refused(key, tables)]
    print(
        f"svm, random search: {len(CASES) - len(accepted)} of {len(CASES)} keys refused; {accepted} accepted"
    )
    return int(bool(accepted))


if __name__ == "__main__":
    sys.exit(main())
