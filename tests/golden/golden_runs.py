"""Small runs that a version left behind, kept as archives in `runs/`: some stopped midway, some finished.

`go_on` begins a run or resumes it; the same calls did so when the runs were made. `golden.py --runs` reads
and resumes all of them, and with `--renew` makes those that have no archive. Never make one anew: what counts
is that later versions read what 0.2.0 wrote.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import golden_cells
from golden_cells import HERE, TRAINEES, over_flower, over_nvflare
from golden_digests import digests_of, short, text

ARCHIVES = HERE / "runs"
EXPECTED = ARCHIVES / "expected.json"
#: What is not kept: a page that can be written again, and what belongs to the process.
_LEFT_OUT = ("report.html", "lock")


@dataclass(frozen=True)
class Kept:
    """A kept run: the tables of its study, and where it ran."""

    given: Mapping[str, Any]
    place: str = "process"


def _of(trainee: str, method: str, place: str = "process") -> Kept:
    given = TRAINEES[trainee].given(method, place)
    if "app" in given:  # found from the working directory, wherever that is
        given["app"] = {**given["app"], "path": "app"}
    return Kept(given, place)


def _small(method: Mapping[str, Any], **tables: Any) -> Kept:
    """A study of few weights, so that the archive is small."""
    given = {**golden_cells._TORCH, "seed": 5, "model": {"name": "linear"}, "method": dict(method)}
    given["space"] = {
        "client": {"lr": golden_cells._LR, "batch_size": {"choices": [4, 8]}},
        "server": {"lr": {"low": 0.5, "high": 2.0, "log": True}},
    }
    return Kept({**given, **tables})


_LONGER = {"rounds": 9, "total": 36, "cohort": 3}
_PROXY = {"data": {"name": "golden_world:clients"}}
_PRIVATE = {"evaluation": {"privacy": {"epsilon": 20.0}}, "objective": {"metric": "accuracy"}}
_TROUBLE = {
    "client": {"train": "golden_world:in_trouble", "hyperparameters": ["pace", "steps"]},
    "space": {"client": {"pace": {"low": 0.001, "high": 0.1, "log": True}, "steps": {"low": 1, "high": 3}}},
    "server": {},
}

#: Stopped midway, one for each federation.
STOPPED: dict[str, Kept] = {
    "simulated": _of("torch", "fedpop"),
    "own-function": _of("own function", "sha"),
    "learners-pooled": _of("learners pooled", "tpe"),
    "trees-bagging": _of("trees by bagging", "random"),
    "flower": _of("torch", "fedex", "flower"),
    "flower-app": _of("flower app", "sha"),
    "nvflare": _of("torch", "random", "nvflare"),
    "table": Kept({"method": "sha", "rounds": 27, "total": 108, "cohort": 2, "seed": 5}, "table"),
    "private": _small({"name": "sha", "trials": 4}, **_PRIVATE),
    "trouble": _small({"name": "random", "trials": 3}, **_TROUBLE),
}
#: Finished, one for each method of the registry, and some settings that records show.
FINISHED: dict[str, Kept] = {
    "auto": _small({"name": "auto"}, budget=_LONGER),
    "random": _small({"name": "random", "trials": 3}),
    "grid": _small({"name": "grid", "points": 2}, budget={**_LONGER, "rounds": 2, "total": 8}),
    "sha": _small({"name": "sha", "trials": 4}),
    "robust": _small({"name": "robust"}, budget=_LONGER),
    "tpe": _small({"name": "tpe", "trials": 3}),
    "gp": _small({"name": "gp", "trials": 3}),
    "hyperband": _small({"name": "hyperband"}, budget=_LONGER),
    "bohb": _small({"name": "bohb"}, budget=_LONGER),
    "fedex": _small({"name": "fedex", "trials": 2}),
    "fedpop": _small({"name": "fedpop", "population": 3}),
    "fedpop-auto": _small({"name": "fedpop-auto", "trials": 6}, budget=_LONGER),
    "fedpop-authors-code": _small({"name": "fedpop-authors-code", "population": 3}, budget=_LONGER),
    "fedtune": _small(
        {"name": "fedtune", "indices": [0.3, 0.7], "quantities": [8], "clients": 3, "length": 2, "steps": 2},
        proxy=_PROXY,
        space={"client": {"lr": golden_cells._LR}},
    ),
    "flora": _small({"name": "flora", "configs": 3, "local_rounds": 1, "surface": "sgm", "diagnose": False}),
    "fts": _small({"name": "fts", "trials": 3, "configs": 2, "local_rounds": 1, "features": 8}),
    "fedhyper": _small({"name": "fedhyper", "trials": 4}),
    "proxy": _small({}, proxy={**_PROXY, "budget": {"rounds": 2, "total": 4, "cohort": 3}}),
    "tuner-hpn": _small({"schedule": {"name": "fixed", "trials": 2}, "policy": {"name": "hpn"}}),
    "tuner-cooling": _small({"schedule": {"name": "halving", "trials": 4}, "policy": {"name": "cooling"}}),
    "private": _small({"name": "random", "trials": 3}, **_PRIVATE),
    "private-fedex": _small({"name": "fedex", "trials": 2, "clip": 3.0}, **_PRIVATE),
    "fleet": _small(
        {"name": "random", "trials": 2}, federation={"speed": 20.0, "dropouts": 0.2, "deadline": 60.0}
    ),
    "baseline": _small(
        {"name": "sha", "trials": 4}, budget={**golden_cells._BUDGET, "baseline": True}, objective={}
    ),
    "two-objectives": _small({"name": "random", "trials": 3}, objectives=["accuracy", "bytes_up"]),
    "trouble": _small({"name": "sha", "trials": 4}, **_TROUBLE),
    "learners-flora": _of("learners pooled", "flora"),
    "estimators-flower": _of("estimators by averaging", "random", "flower"),
    "trees-nvflare": _of("trees by bagging", "flora", "nvflare"),
    "flower-app": _of("flower app", "fedex"),
}
del FINISHED["two-objectives"].given["objective"]  # type: ignore[attr-defined]
del FINISHED["proxy"].given["method"]  # type: ignore[attr-defined]


def kept_runs() -> dict[str, Kept]:
    """All of them, by the name of their archive."""
    stopped = {f"stopped-{name}": kept for name, kept in STOPPED.items()}
    return stopped | {f"finished-{name}": kept for name, kept in FINISHED.items()}


def go_on(kept: Kept, run: Path, callbacks: Sequence[Any] = ()) -> Any:
    """Begin the run, or resume it, from a working directory that holds `app`."""
    import fedhpo as fh

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kept.place == "table":
            return _on_table(kept, run, callbacks)
        # As `fedhpo resume` reads it: settings without effect, which 0.2.0 accepted, are warned of.
        study = fh.Study.from_dict(kept.given, recorded=run.exists())
        if kept.place == "process":
            return study.tune(run, workers=0, callbacks=callbacks)
        clients = kept.given[kept.place]["clients"]
        made = {"flower": over_flower, "nvflare": over_nvflare}[kept.place](study, clients, run)
        with made as federation:
            return study.tune(run, federation=federation, callbacks=callbacks)


def _on_table(kept: Kept, run: Path, callbacks: Sequence[Any]) -> Any:
    import fedhpo as fh

    table = fh.load_table(HERE / "golden.table")
    federation = fh.TabularFederation(table)
    options = {**kept.given, "objective": "error", "run": run, "callbacks": callbacks}
    return fh.tune(federation, table.study.space, options.pop("method"), **options)


def digests_of_kept(run: Path, result: Any) -> dict[str, str]:
    """As of a cell; states are those of the last checkpoint: trials of the past are not trained again."""
    with closing(sqlite3.connect(f"file:{run / 'record.sqlite'}?mode=ro", uri=True)) as record:
        rows = record.execute("SELECT trial, content FROM checkpoints ORDER BY trial")
        states = {int(trial): str(content) for trial, content in rows}
    return digests_of(run, result, states)


def outcome(run: Path, result: Any) -> dict[str, Any]:
    """What is expected of a run that was resumed, and figures that hold on other machines too."""
    best = result.facts["best"]
    return {
        "digests": digests_of_kept(run, result),
        "trials": len(result.facts["trials"]),
        "rounds": result.facts["cost"]["rounds"],
        "best": best["trial"],
        "result": short(text(result.facts["best"]["config"])),
    }


def resumed(name: str, folder: Path, *, same_bits: bool) -> str:
    """Resume the kept run: "same" as expected, "refused" with the commit to use, or what differs.

    Where bits are others than on the machine that made it, only figures are compared.
    """
    from fedhpo.core.errors import InputError
    from fedhpo.run import OtherVersionError

    run, known = unpacked(name, folder), expected()["runs"][name]
    try:
        result = go_on(kept_runs()[name], run)
    except (OtherVersionError, InputError) as error:
        return "refused" if "git checkout" in str(error) else str(error)
    found = outcome(run, result)
    if result.status != "finished":
        return f"it is {result.status}"
    if not same_bits:
        return (
            "same" if (found["trials"], found["rounds"]) == (known["trials"], known["rounds"]) else "differs"
        )
    wrong = [part for part, digest in known["digests"].items() if found["digests"][part] != digest]
    return f"{', '.join(wrong)} differ" if wrong else "same"


def read_back(name: str, folder: Path, out: Path, *, report: bool) -> None:
    """Read a finished run by `load_run`, `export` and, if asked to, `report`; an error where one fails."""
    import fedhpo as fh
    from fedhpo.cli import main

    known, result = expected()["runs"][name], fh.load_run(folder / name)
    assert len(result.trials) == known["trials"]
    assert result.cost["rounds"] == known["rounds"]
    assert short(text(result.facts["best"]["config"])) == known["result"]
    assert len(result.history) > 0
    assert main(["export", str(folder / name), "--to", "csv", str(out / "trials.csv")]) == 0
    assert len((out / "trials.csv").read_text().splitlines()) == known["trials"] + 1
    if report:
        assert main(["report", str(folder / name), "--output", str(out / "report.html")]) == 0
        assert result.facts["method"]["name"] in (out / "report.html").read_text()


def page_of(name: str, folder: Path) -> None:
    """Ask the live page for a run, and for the list; an error where it cannot tell."""
    from starlette.testclient import TestClient

    from fedhpo.ui.app import make_app
    from fedhpo.ui.runs import Runs

    client = TestClient(
        make_app(Runs(folder), "secret"), base_url="http://127.0.0.1", headers={"x-token": "secret"}
    )
    listed = {line["name"]: line["status"] for line in client.get("/api/runs").json()["runs"]}
    assert listed[name] == "finished"
    answer = client.get("/api/run", params={"name": name})
    assert answer.status_code == 200, answer.text


# Archives


def make(name: str, folder: Path) -> dict[str, Any]:
    """Make a kept run with the source that is there, and its archive; what it comes to is given back."""
    kept, seen = kept_runs()[name], []
    whole = go_on(kept, folder / "whole", [lambda event: seen.append(event.kind)])
    expected = outcome(folder / "whole", whole)
    run = folder / "whole"
    if name.startswith("stopped-"):
        run, left = folder / "cut", [len(seen) // 2]

        def stop(event: Any) -> bool:
            left[0] -= 1
            return left[0] == 0

        assert go_on(kept, run, [stop]).status == "stopped"
    ARCHIVES.mkdir(exist_ok=True)
    with tarfile.open(ARCHIVES / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(run, name, filter=_plain)
    return expected


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A member without its owner; None where it is left out."""
    if Path(member.name).name in _LEFT_OUT:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpacked(name: str, folder: Path) -> Path:
    """The kept run of this name, in a directory of its own."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def expected() -> dict[str, Any]:
    """What the kept runs came to when they were made, with the probe of that machine."""
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
        return found
    return {"probe": None, "runs": {}}


def write_expected(name: str, found: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Keep what a run that was just made came to."""
    known = expected()
    known["probe"] = known["probe"] or here
    if known["probe"] != here:
        raise SystemExit("this machine gives other bits than the one where the other runs were made")
    known["runs"][name] = found
    EXPECTED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
