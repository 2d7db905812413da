"""Which of Flower's examples are tuned as they are: `python benchmarks/flower_examples.py --examples DIR`.

DIR is a checkout of adap/flower (March 2026), with its folders `examples` and `baselines`; no file of it is
changed (their digests are compared before and after). Data and weights are stand-ins of ours
(`flower_parts`). Packages that an example needs and that are not installed may lie in a directory of their
own (`pip install --target SITE ...`), named by `--site`. Every example runs in a process of its own: random
search over two configs, two rounds with two of four clients.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from flower_parts.cases import BASELINES, EXAMPLES, Case  # noqa: E402

CLIENTS = 4


def tables(case: Case, path: Path) -> dict[str, Any]:
    """The study of an example."""
    rounds = case.rounds
    return {
        "app": {
            "path": str(path),
            "clients": CLIENTS,
            "setup": f"flower_parts.{case.setup}",
            **case.app,
        },
        "space": dict(case.space) or {"client": {"learning-rate": {"low": 1e-3, "high": 0.5, "log": True}}},
        "objective": dict(case.objective),
        "method": {"name": "random", "trials": 2},
        "budget": {"rounds": rounds, "total": 2 * rounds, "cohort": 2},
    }


def tune_one(case: Case, path: Path) -> dict[str, Any]:
    """Tune an example in this process, or say why it was refused."""
    from fedhpo.core.errors import InputError
    from fedhpo.study import Study

    begun = time.monotonic()
    try:
        result = Study.from_dict(tables(case, path)).tune()
    except InputError as error:
        return {"tuned": False, "why": str(error), "seconds": time.monotonic() - begun}
    except Exception as error:
        return {
            "tuned": False,
            "why": f"{type(error).__name__}: {error}",
            "seconds": time.monotonic() - begun,
        }
    found = {"score": result.best_score, "config": result.best_config.to_dict()}
    return {"tuned": result.status == "finished", **found, "seconds": time.monotonic() - begun}


def digest(path: Path) -> str:
    """Of all files below a directory but what Python itself writes there."""
    found = blake2b(digest_size=8)
    for file in sorted(path.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            found.update(str(file.relative_to(path)).encode() + file.read_bytes())
    return found.hexdigest()


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Where an example finds its packages; it loads nothing from the network."""
    places = (str(HERE), options.site, os.environ.get("PYTHONPATH"))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(part for part in places if part),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
    }


def run(kind: str, name: str, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Tune an example in a process of its own."""
    place = Path(options.examples) / kind / name
    path = place / case.path if case.path else place
    before = digest(place)
    environment = environment_of(options)
    command = [sys.executable, __file__, "--examples", str(options.examples), "--one", f"{kind}/{name}"]
    try:
        done = subprocess.run(
            [*command, str(path)], env=environment, capture_output=True, text=True, timeout=options.timeout
        )
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"tuned": False, "why": f"not done in {options.timeout:.0f} s", "seconds": options.timeout}
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] or ["nothing was printed"]
        found = {"tuned": False, "why": f"the process ended: {last[0]}", "seconds": 0.0}
    found["edited"] = int(digest(place) != before)
    found["expected"] = bool(re.search(re.escape(case.refused).replace(r"\|", "|"), found.get("why", "")))
    found["expected"] &= bool(case.refused) != found["tuned"]
    if not case.refused:
        found["expected"] = found["tuned"]
    return found


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", required=True, metavar="DIR")
    parser.add_argument("--site", metavar="SITE", help="a directory of further packages")
    parser.add_argument("--only", metavar="NAMES", help="some of them, with commas between")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument(
        "--json", metavar="FILE", help="keep results there; those that are there are not run again"
    )
    parser.add_argument("--flwr", metavar="NAMES", help="tune these by flwr run too, and compare")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = {
        **{("examples", name): one for name, one in EXAMPLES.items()},
        **{("baselines", name): one for name, one in BASELINES.items()},
    }
    if options.one is not None:
        kind, name = options.one[0].split("/")
        found = tune_one(cases[kind, name], Path(options.one[1]))
        print(json.dumps(found), flush=True)
        os._exit(0)
    kept = Path(options.json) if options.json else None
    results: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    wanted = set(options.only.split(",")) if options.only else None
    for (kind, name), case in cases.items():
        if (wanted is None and name not in results) or (wanted is not None and name in wanted):
            results[name] = run(kind, name, case, options)
            print(row(name, case, results[name]), flush=True)
            if kept:
                kept.write_text(json.dumps(results, indent=1))
    tell(cases, results)
    if options.flwr:
        by_flwr_run({name: one for (_, name), one in cases.items()}, results, options)
    return 0


def by_flwr_run(cases: dict[str, Case], results: dict[str, Any], options: argparse.Namespace) -> None:
    """Some examples by `flwr run`, beside what they gave in process."""
    from fedhpo.federations.apps.app_file import read_app
    from fedhpo.federations.apps.around import write_around
    from flower_parts.by_run import SuperLink

    os.chdir(HERE)  # where wrapped apps look for the stand-ins
    with tempfile.TemporaryDirectory(prefix="fedhpo-flwr-") as folder:
        home = Path(folder)
        with SuperLink(home, environment_of(options)) as link:
            for name in options.flwr.split(","):
                kind = "baselines" if name in BASELINES else "examples"
                case = cases[name]
                place = Path(options.examples) / kind / name / (case.path or "")
                study = tables(case, place)
                around, run = home / name, home / "runs" / name
                write_around(read_app(place), study, around, run, study["app"]["setup"])
                found = link.tune(around, run, CLIENTS, options.timeout)
                if not found["tuned"]:
                    print((home / f"{name}.log").read_text()[-3000:], file=sys.stderr)
                here = results.get(name, {})
                keys = ("score", "config")
                same = here.get("tuned") and all(found.get(key) == here.get(key) for key in keys)
                what = f"tuned, {found['score']:.6g}" if found["tuned"] else found["why"]
                beside = "the same as in process" if same else f"in process {here.get('score')}"
                print(f"flwr run {name}: {what}, {beside}, {found['seconds']:.0f} s", flush=True)


def row(name: str, case: Case, found: dict[str, Any]) -> str:
    """A line of the table."""
    if found["tuned"]:
        source = case.objective.get("from", "clients")
        what = f"tuned, {case.objective['metric']} {found['score']:.4g} ({source})"
    else:
        what = f"refused: {' '.join(found['why'].split())[:160]}"
    mark = "" if found["expected"] else " (!)"
    return f"| {name} | {found['edited']} | {what}{mark} | {found['seconds']:.0f} s |"


def tell(cases: dict[tuple[str, str], Case], results: dict[str, Any]) -> None:
    """The whole table, and its counts."""
    print("\n| app | edited | what came of it | time |\n| --- | --- | --- | --- |")
    for (_, name), case in cases.items():
        if name in results:
            print(row(name, case, results[name]))

    def count(names: Any) -> str:
        chosen = [name for name in names if name in results]
        return f"{sum(results[name]['tuned'] for name in chosen)} of {len(chosen)}"

    print(f"\nexamples tuned: {count(EXAMPLES)}; baselines tuned: {count(BASELINES)}")
    for group in ("fine-tuning", "literals"):
        names = [name for name, case in EXAMPLES.items() if case.group == group]
        print(f"of {group}: {count(names)}")
    odd = [name for name, found in results.items() if not found["expected"]]
    print(f"not as expected: {', '.join(odd) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
