"""Digests of what a run came to, and a probe of the arithmetic on which they depend.

Digests of one run:

- `events`: what the record holds of every call: kind, call, result, cost, epsilon. Left out are the wall time
  of an event and the chain of digests, which covers that time.
- `facts`: what else the record says was asked: study, method, its number, federation. Left out are versions,
  times, directories, the process, the workers, how clients are waited for, and the digests of files.
- `fingerprint`: which data, model and code the run belongs to; where it changes, kept runs refuse to resume.
- `states`: each trial's arrays and facts when it was stopped, or at the end.
- `result`: of `result.json` the configs, scores and costs; `history.csv` without seconds. Left out are
  words. Private scores are taken within [0, 1], as they are shown: 0.2.0 showed them as released, which
  `events` cover.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import sqlite3
import zlib
from collections.abc import Mapping
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

#: Packages whose version decides bits.
PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "xgboost-cpu", "xgboost", "flwr", "nvflare", "ray")
_FACTS = ("study", "method", "method_number", "federation", "repeatable")
_OF_TRIALS = ("trial", "config", "status", "rounds", "score", "standard_error", "path")
_OF_BEST = ("trial", "config", "rounds", "validation", "test")


def short(*parts: bytes) -> str:
    """A digest of these bytes, each with its length."""
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def text(value: Any) -> bytes:
    """A value as JSON, its keys sorted."""
    return json.dumps(value, sort_keys=True, default=str).encode()


def state_digest(state: Any) -> str:
    """Of a trial's facts, and of the names, types, shapes and bytes of its arrays."""
    arrays = [
        part
        for name in sorted(state.arrays)
        for array in [np.ascontiguousarray(state.arrays[name])]
        for part in (f"{name} {array.dtype.str} {array.shape}".encode(), array.tobytes())
    ]
    return short(text(dict(state.facts)), *arrays)


def digests_of(run: Path, result: Any, states: Mapping[int, str]) -> dict[str, str]:
    """All digests of a finished run; see the top of this file for what they cover."""
    with closing(sqlite3.connect(f"file:{run / 'record.sqlite'}?mode=ro", uri=True)) as record:
        facts = {key: json.loads(value) for key, value in record.execute("SELECT key, value FROM meta")}
        names = [column[1] for column in record.execute("PRAGMA table_info(events)")]
        kept = ", ".join(name for name in names if name not in ("seconds", "digest"))
        events = list(record.execute(f"SELECT {kept} FROM events ORDER BY number"))
    told = {key: facts.get(key) for key in _FACTS}
    told["federation"] = _federation(told["federation"])
    return {
        "events": short(*(part for event in events for part in map(_bytes, event))),
        "facts": short(text(told)),
        "fingerprint": short(text(facts.get("fingerprint"))),
        "states": short(text({str(trial): states[trial] for trial in sorted(states)})),
        "result": result_digest(run, result.facts),
    }


def result_digest(run: Path, facts: Mapping[str, Any]) -> str:
    """Of a result's facts and of the run's history."""
    rows = _history(run / "history.csv")
    if facts.get("privacy"):
        rows = [{**row, "accuracy": _within(row["accuracy"])} for row in rows]
    return short(text(_result(facts)), text(rows))


def _within(score: str) -> str:
    return str(min(1.0, max(0.0, float(score)))) if score else score


def _federation(told: Any) -> Any:
    """What describes a federation but for this machine: its cores, where and how it waits."""
    return {
        key: value for key, value in (told or {}).items() if key not in ("workers", "worker_kind", "device")
    }


def _bytes(value: Any) -> bytes:
    """A column of an event; a payload as it was before it went to disk, where it may be compressed."""
    if isinstance(value, bytes):
        return zlib.decompress(value[1:]) if value[:1] == b"\x01" else value[1:]
    return text(value)


def _result(facts: Mapping[str, Any]) -> dict[str, Any]:
    best, own = facts["best"] or {}, facts["baseline"] or {}
    return {
        "best": {key: best.get(key) for key in _OF_BEST},
        "own": {key: own.get(key) for key in _OF_BEST},
        "trials": [_trial(row, private=bool(facts.get("privacy"))) for row in facts["trials"]],
        "cost": facts["cost"],
        "tried": facts["tried"],
        "totals": facts["totals"],
    }


def _trial(row: Mapping[str, Any], *, private: bool) -> dict[str, Any]:
    found = {key: row.get(key) for key in _OF_TRIALS}
    if private and found["score"] is not None:
        found["score"] = min(1.0, max(0.0, found["score"]))
    return found


def _history(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [
            {key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)
        ]


def probe() -> dict[str, Any]:
    """What the arithmetic here gives, and the packages that do it: digests hold where both are the same."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {"arithmetic": short(*_arithmetic())}
    finally:
        torch.set_num_threads(threads)
    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "packages": versions}


def _arithmetic() -> list[bytes]:
    """Bits of products of matrices, exp and other functions, and a convolution there and back."""
    import torch

    ramp = np.arange(1, 97 * 61 + 1, dtype=np.float64).reshape(97, 61)
    a, b = np.sin(ramp), np.cos(ramp[:61, :53].T @ np.ones((61, 1)) * 1e-3 + ramp[:53, :61])
    parts = [(a @ b.T).tobytes(), np.exp(a).tobytes(), np.linalg.cholesky(a.T @ a + np.eye(61)).tobytes()]
    x, y = torch.from_numpy(a.astype(np.float32)), torch.from_numpy(b.astype(np.float32))
    parts += [t.numpy().tobytes() for t in (x @ y.T, x.exp(), x.tanh(), torch.log_softmax(x, 1), x.sum(0))]
    parts += [
        torch.bmm(x[None, :48], y.T[None]).numpy().tobytes(),
        torch.addmm(x[:, :53], x, y.T).numpy().tobytes(),
    ]
    picture = x[:8, :49].reshape(8, 1, 7, 7).clone().requires_grad_()
    kernel = y[:4, :9].reshape(4, 1, 3, 3).clone().requires_grad_()
    out = torch.nn.functional.conv2d(picture, kernel, padding=1)
    gradients = torch.autograd.grad(out.square().sum(), [picture, kernel])
    return [*parts, *(t.detach().numpy().tobytes() for t in (out, *gradients))]
