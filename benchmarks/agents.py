"""The interface for coding agents, driven by a script through the MCP SDK's own client.

    python benchmarks/agents.py [--write docs/agents-transcript.md]

1. From an empty directory to a verified improvement, in at most 12 calls.
2. 40 hostile calls: paths outside the root, huge budgets, names of code, epsilon, concurrent jobs, giant
   strings and wrong types. All must be refused, and nothing may run or be written.

Exits 1 where either fails. `--write` writes the transcript of 1, which the documentation shows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

MOST_CALLS = 12
STUDY = """[data]
name = "digits"
clients = 40

[model]
name = "mlp"

[space.client]
lr = { low = 1e-3, high = 1.0, log = true, default = 0.02 }
batch_size = 8

[budget]
rounds = 9
total = 81
cohort = 5

[method.schedule]
name = "robust"

[method.sampler]
name = "proposals"
file = "proposals.jsonl"
share = 0.3
sampler = "bohb"
"""
PRIVATE = STUDY.split("[method")[0] + "[evaluation.privacy]\nepsilon = 5.0\n"

APP = '[app]\npath = "app"\n[space.client]\nlr = { low = 0.1, high = 1.0 }\n[budget]\nrounds = 1\n'

#: From an empty directory to a verified improvement.
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("limits", {}),
    ("schema", {}),
    ("check", {"study": STUDY, "save": "base.toml"}),
    ("advice", {"study": "base.toml"}),
    ("plan", {"study": "base.toml"}),
    ("propose", {"run": "base.toml", "configs": [{"client": {"lr": 0.3}}, {"client": {"lr": 0.1}}]}),
    ("tune", {"study": "base.toml", "name": "first", "wait": 500}),
    ("results", {"run": "runs/first"}),
    (
        "verify",
        {"base": "base.toml", "candidate": "runs/first", "campaign": "lr", "proposals": 20, "wait": 500},
    ),
    ("comparison", {"campaign": "campaigns/lr"}),
)


def _with(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def hostile() -> list[tuple[str, dict[str, Any]]]:
    """40 calls that must be refused."""
    plain = STUDY.split("[method")[0]
    outside = ["/etc/passwd", "../base.toml", "runs/../../x.toml", "~/x.toml", "link.toml", "a\0b"]
    calls: list[tuple[str, dict[str, Any]]] = [("check", {"study": path}) for path in outside]
    calls += [("results", {"run": path}) for path in ("/", "..", "link")]
    calls += [("comparison", {"campaign": path}) for path in ("/etc/passwd", "base.toml")]
    calls += [
        ("check", {"study": plain, "save": name})
        for name in ("../x.toml", "/tmp/x.toml", "x.sh", ".hidden.toml")
    ]
    calls += [
        ("tune", {"study": "base.toml", "name": "../../up"}),
        ("tune", {"study": "huge.toml", "name": "huge"}),
        ("tune", {"study": "base.toml", "name": "--runs=/tmp"}),
        ("tune", {"study": "private.toml", "name": "private"}),
        ("check", {"study": PRIVATE}),
        ("check", {"study": _with(plain, ('name = "digits"', 'name = "os:system"'))}),
        ("check", {"study": _with(plain, ('name = "mlp"', 'name = "subprocess:Popen"'))}),
        ("check", {"study": plain + '\n[client]\ntrain = "os:abort"\n'}),
        ("check", {"study": plain + '\n[method]\nname = "pbt:PBT"\n'}),
        ("check", {"study": plain + '\n[server]\noptimiser = "a.b:C"\n'}),
        ("check", {"study": APP}),
        ("check", {"study": _with(plain, ('name = "digits"', 'files = ["/etc/passwd"]'))}),
        ("check", {"study": _with(plain, ("clients = 40", 'clients = 40\npath = "/root"'))}),
        ("check", {"study": STUDY.replace("proposals.jsonl", "../../p.jsonl")}),
        ("check", {"study": "x" * 1_000_000}),
        ("check", {"study": "a = [" + "[" * 5_000}),
        ("verify", {"base": "base.toml", "candidate": "os:system"}),
        ("verify", {"base": "base.toml", "candidate": "../other.toml"}),
        ("verify", {"base": "base.toml", "candidate": "candidate.toml", "pairs": 1_000_000_000}),
        ("verify", {"base": "base.toml", "candidate": "candidate.toml", "pairs": 900}),
        ("verify", {"base": "base.toml", "candidate": "candidate.toml", "campaign": "../../c"}),
        ("verify", {"base": "base.toml", "candidate": "candidate.toml", "control": 10**8}),
        ("propose", {"run": "base.toml", "configs": [{"client": {"lr": 1e9}}]}),
        ("propose", {"run": "base.toml", "configs": [{"client": {"lr": 0.1}}] * 1_000}),
        ("limits", {"rounds": 10**9}),
    ]
    return calls


def server(root: Path, *more: str) -> Any:
    """How the client starts the server."""
    from mcp import StdioServerParameters

    kept = {
        key: os.environ[key] for key in ("PYTHONPATH", "OMP_NUM_THREADS", "FEDHPO_DATA") if key in os.environ
    }
    arguments = ["-m", "fedhpo", "mcp", "--root", str(root), *more]
    return StdioServerParameters(command=sys.executable, args=arguments, env=kept)


async def called(root: Path, steps: Sequence[tuple[str, dict[str, Any]]], *more: str) -> list[dict[str, Any]]:
    """Make these calls, one after the other; what came back of each."""
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    found = []
    async with Client(stdio_client(server(root, *more))) as client:
        for tool, arguments in steps:
            answer = await client.call_tool(tool, arguments)
            text = " ".join(getattr(one, "text", "") for one in answer.content)
            found.append(
                {
                    "tool": tool,
                    "arguments": arguments,
                    "error": bool(answer.is_error),
                    "answer": answer.structured_content or text,
                }
            )
    return found


async def improve(root: Path) -> list[dict[str, Any]]:
    """From an empty directory to a verified improvement."""
    return await called(root, STEPS, "--rounds", "2000")


async def attack(root: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The hostile calls, two of them beside a job that runs; and what is wrong with what came of them."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.toml").write_text(STUDY)
    (root / "base.toml").write_text(STUDY)
    (root / "candidate.toml").write_text(STUDY.replace("0.02", "0.2"))
    (root / "huge.toml").write_text(STUDY.replace("total = 81", "total = 1000000000"))
    (root / "private.toml").write_text(PRIVATE)
    (root / "link.toml").symlink_to(outside / "secret.toml")
    (root / "link").symlink_to(outside)
    before = _files(root.parent)
    found = await called(root, hostile(), "--rounds", "600")
    wrong = [
        f"{one['tool']} {str(one['arguments'])[:80]} was not refused" for one in found if not one["error"]
    ]
    written = {name for name in _files(root.parent) ^ before if not name.endswith("agents.journal")}
    wrong += [f"{name} was written" for name in sorted(written)]
    journal = (root / "agents.journal").read_text().count('"event": "call"')
    if journal != len(found):
        wrong.append(f"{journal} calls are in the journal, {len(found)} were made")
    # Last, while a job runs, no second one starts.
    study = STUDY.split("[method")[0].replace("0.02", "0.021")
    steps = [
        ("check", {"study": study, "save": "slow.toml"}),
        ("tune", {"study": "slow.toml", "name": "one", "wait": 0}),
        ("tune", {"study": "slow.toml", "name": "two", "wait": 0}),
        ("verify", {"base": "slow.toml", "candidate": "candidate.toml", "pairs": 6, "wait": 0}),
    ]
    beside = await called(root, steps, "--rounds", "600")
    if [one["error"] for one in beside] != [False, False, True, True]:
        wrong.append(f"a second job was not refused: {[one['answer'] for one in beside[2:]]}")
    return [*found, *beside[2:]], wrong


def _files(place: Path) -> set[str]:
    return {str(one.relative_to(place)) for one in place.rglob("*")}


def transcript(steps: Sequence[dict[str, Any]]) -> str:
    """The calls and what came back, as a page."""
    lines = [
        "# A session of a coding agent",
        "",
        "Calls to `fedhpo mcp --root DIR --rounds 2000` from an empty directory, made by a script with the",
        "MCP SDK's client, and the answers, shortened. This page is made by",
        "`python benchmarks/agents.py --write docs/agents-transcript.md`; a test makes the same calls again.",
        "",
    ]
    for number, one in enumerate(steps, 1):
        lines += [
            f"## {number}. `{one['tool']}`",
            "",
            "```json",
            _cut(one["arguments"], 900),
            "```",
            "",
            "```json",
        ]
        lines += [_cut(one["answer"], 1_100), "```", ""]
    return "\n".join(lines)


def _cut(value: Any, most: int) -> str:
    text = json.dumps(value, indent=1)
    return text if len(text) <= most else f"{text[:most]} ..."


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", metavar="FILE", help="write the transcript")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        root.mkdir()
        steps = anyio.run(improve, root)
    refused = [one for one in steps if one["error"]]
    verdicts = [one["answer"]["verdicts"][0] for one in steps if one["tool"] == "verify" and not one["error"]]
    kept = bool(verdicts) and verdicts[-1]["verdict"] == "keep"
    print(
        f"empty directory to a verified improvement: {len(steps)} calls, {len(refused)} refused, kept: {kept}"
    )
    if verdicts:
        print(f"  {json.dumps(verdicts[-1]['difference'])}")
    wrong += [f"{one['tool']}: {one['answer']}" for one in refused]
    if not kept or len(steps) > MOST_CALLS:
        wrong.append(f"no verified improvement in {MOST_CALLS} calls")
    if options.write:
        Path(options.write).write_text(transcript(steps) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        root.mkdir()
        calls, missed = anyio.run(attack, root)
    print(f"hostile calls: {len(calls)}, refused: {sum(one['error'] for one in calls)}")
    for line in [*wrong, *missed]:
        print(f"MISSED: {line}")
    if len(calls) < 40:
        wrong.append("fewer than 40 hostile calls")
    print("all limits are kept" if not wrong + missed else "limits are missed")
    return 1 if wrong + missed else 0


if __name__ == "__main__":
    sys.exit(main())
