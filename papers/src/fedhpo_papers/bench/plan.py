"""A plan that is written before test tables are played: their digests, and that of the code.

Whoever has seen the results of test tables and changes the code has no test tables any more. So they are
played by the code of the plan, or with `--again`, which the page then shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fedhpo.core.errors import InputError


def check_plan(path: str | Path, code: str, tables: Mapping[str, str], *, again: bool = False) -> str:
    """Write the plan where there is none, and stop; else check it. A sentence for the page.

    `tables` are the digests of test tables by their names.
    """
    file = Path(path)
    if not file.exists():
        file.write_text(json.dumps({"code": code, "tables": dict(tables), "again": []}, indent=1) + "\n")
        raise InputError(f"plan: {file} is written, and nothing is played: commit it, then call again")
    plan = json.loads(file.read_text())
    others = sorted(name for name, found in tables.items() if plan["tables"].get(name) != found)
    if others:
        raise InputError(f"plan: {file} was made for other test tables than {', '.join(others)}")
    if code != plan["code"] and code not in plan["again"]:
        if not again:
            raise InputError(
                f"plan: {file} is that of code {plan['code']}, and this is {code}: test tables were open to "
                "what has changed since; play them with --again, which the page will show"
            )
        plan["again"].append(code)
        file.write_text(json.dumps(plan, indent=1) + "\n")
    told = f"Test tables were played by a plan for code {plan['code']}"
    return f"{told}, and again with {', '.join(plan['again'])}." if plan["again"] else f"{told}."
