"""Cases that are files: tables, FedTune's tables, policies, ground truths, results and whole runs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.mutate import mutated, mutated_bytes


def make(folder: Path) -> None:
    """Good files of every kind, to be mutated: made once for all workers."""
    from dataclasses import replace

    import fedhpo as fh
    from fedhpo.methods.fedex.ground_truth import GroundTruth
    from fedhpo.methods.fedex.learned import LearnedPolicy
    from fedhpo.testing import ToyFederation

    space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True), "epochs": fh.Int(1, 3)}, server={"lr": 1.0})
    methods = {
        "sha": fh.SHA(trials=3),
        "fedex": fh.FedEx(schedule="fixed", trials=2, arms=3),
        "fedpop": fh.FedPop(population=3, interval=1),
    }
    for name, method in methods.items():
        fh.tune(ToyFederation(6), space, method, rounds=4, total=24, cohort=3, run=folder / "runs" / name)
    fh.tune(
        ToyFederation(6),
        space,
        "random",
        rounds=4,
        total=24,
        cohort=3,
        run=folder / "runs" / "stopped",
        callbacks=[lambda event: event.kind == "evaluate"],
    )
    arms = ({"lr": 0.1, "epochs": 1}, {"lr": 0.2, "epochs": 2})
    LearnedPolicy(arms, (0.0, -1.0)).save(folder / "policy.json")
    GroundTruth(arms, (0.9, 0.8)).save(folder / "truth.json")
    from fedhpo.methods.fedtune import Cells

    fh.ReferenceTable(Cells((0.2, 0.8), (10,)), arms, space, (0.5, 0.6)).save(folder / "reference.json")
    table = fh.load_table("stackexchange")
    clients = table.validation_clients[:3]
    sizes = table.validation_sizes.copy()
    sizes[table.validation_clients[3:]] = 0
    few = replace(
        table,
        configs=table.configs[:4],
        trained=table.trained[:4],
        parameters=table.parameters[:4],
        wrong=table.wrong[:, :4, :, :3],
        counted=table.counted[:, :3],
        loss=table.loss[:, :4, :, :3],
        validation_sizes=sizes,
    )
    assert len(clients) == 3
    few.save(folder / "small.table")


def table(rng: Random, folder: Path, good: Path) -> None:
    """A table of learning curves: its bytes, or the header and the arrays inside."""
    import fedhpo as fh

    content = (good / "small.table").read_bytes()
    path = folder / "mine.table"
    if rng.random() < 0.4:
        path.write_bytes(mutated_bytes(content, rng))
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(path, "w") as new:
            hit = rng.choice(old.namelist())
            for name in old.namelist():
                inner = old.read(name)
                if name == hit and name.endswith(".json") and rng.random() < 0.8:
                    inner = json.dumps(mutated(json.loads(inner), rng, toml=False)).encode()
                elif name == hit:
                    inner = mutated_bytes(inner, rng)
                new.writestr(name, inner)
    found = fh.load_table(path)
    found.facts()


def json_file(rng: Random, folder: Path, good: Path) -> None:
    """A reference table, a saved policy or a ground truth; as text or as JSON."""
    import fedhpo as fh
    from fedhpo.methods.fedex.ground_truth import GroundTruth
    from fedhpo.methods.fedex.learned import LearnedPolicy

    name = rng.choice(("reference", "policy", "truth"))
    path = folder / f"{name}.json"
    _write_mutated(good / f"{name}.json", path, rng)
    if name == "reference":
        found = fh.ReferenceTable.load(path)
        found.config_for(0.5, 20)
        found.to_dict()
    elif name == "policy":
        _ = LearnedPolicy.load(path).best, fh.FedEx(start=str(path)).to_dict()
    else:
        GroundTruth.load(path).of([{"lr": 0.1, "epochs": 1}])


def _write_mutated(source: Path, target: Path, rng: Random) -> None:
    content = source.read_bytes()
    if rng.random() < 0.3:
        content = mutated_bytes(content, rng)
    else:
        content = json.dumps(mutated(json.loads(content), rng, toml=False)).encode()
    target.write_bytes(content)


def run(rng: Random, folder: Path, good: Path) -> int:
    """A run's directory with a file of it changed, read by `fedhpo report` and `fedhpo runs`."""
    from fedhpo.cli import main

    name = rng.choice(sorted(os.listdir(good / "runs")))
    directory = folder / "runs" / name
    shutil.copytree(good / "runs" / name, directory)
    shutil.copy(good / "truth.json", directory / "truth.json")
    _damage(directory, rng)
    command = rng.choice(
        (
            ["report", str(directory)],
            ["report", str(directory)],
            ["runs", str(folder / "runs")],
            ["runs", str(folder / "runs"), "--json"],
        )
    )
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main([*command, "--debug"])
    if code == 1 and "unexpected" in said.getvalue():
        raise AssertionError(said.getvalue())
    return code


def _damage(directory: Path, rng: Random) -> None:
    kind = rng.randrange(6)
    if kind <= 1:
        named = [f for f in ("result.json", "truth.json", "study.json") if (directory / f).exists()]
        path = directory / rng.choice(named)
        _write_mutated(path, path, rng)
    elif kind == 2:
        path = rng.choice(sorted(p for p in directory.iterdir() if p.is_file()))
        path.write_bytes(mutated_bytes(path.read_bytes(), rng))
    elif kind == 3:
        _in_database(directory / "record.sqlite", rng)
    elif kind == 4:
        path = rng.choice(sorted(directory.iterdir()))
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if rng.random() < 0.5:
            path.mkdir()
    else:
        (directory / "study.toml").write_bytes(rng.choice((b"\xff\xfe", b"", b"x = 1")))


def _in_database(path: Path, rng: Random) -> None:
    """A value in the record: the file itself stays whole."""
    database = sqlite3.connect(path)
    with database:
        if rng.random() < 0.6:
            rows = database.execute("SELECT key, value FROM meta").fetchall()
            key, value = rng.choice(rows)
            tree: Any = mutated({"v": json.loads(value)}, rng, toml=False)
            database.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(tree.get("v")), key))
        else:
            column = rng.choice(("call", "result", "kind", "rounds", "number", "seconds", "epsilon"))
            value = rng.choice((b"x", "x", -1, 10**12, 0.5, b"{}", b"[]", b"\x00" * 40, None))
            with contextlib.suppress(sqlite3.Error):
                database.execute(f"UPDATE events SET {column} = ? WHERE number % 3 = 0", (value,))
    database.close()
