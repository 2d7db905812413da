"""Flower apps verified as they are: no line of theirs is changed."""

from __future__ import annotations

import json
import shutil
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from fedhpo.cli import main

APP = Path(__file__).parents[1] / "flower"


def digest(place: Path) -> str:
    """Of all files of an app."""
    files = [one for one in sorted(place.rglob("*")) if one.is_file() and "__pycache__" not in one.parts]
    return blake2b(b"".join(bytes(one.relative_to(place)) + one.read_bytes() for one in files)).hexdigest()


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: Any) -> dict[str, Path]:
    """An app, the same with another learning rate in its config, and the same with other code."""
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    monkeypatch.syspath_prepend(str(APP))
    monkeypatch.chdir(tmp_path)
    from trap_apps import write_app

    first = write_app(tmp_path / "base")
    found = {"base": first}
    for name in ("config", "code"):
        found[name] = Path(shutil.copytree(first, tmp_path / name / first.name))
    file = found["config"] / "pyproject.toml"
    file.write_text(file.read_text().replace("learning-rate = 0.1", "learning-rate = 0.5"))
    file = found["code"] / first.name / "task.py"
    file.write_text(file.read_text().replace("w = w - lr *", "w = w - 0 * lr *"))
    return found


def command(capsys: Any, *arguments: str) -> tuple[int, dict[str, Any]]:
    fixed = ("--metric", "eval_loss", "--direction", "minimize", "--clients", "14", "--cohort", "3")
    code = main(["verify", *arguments, *fixed, "--workers", "0", "--json", "--quiet"])
    return code, json.loads(capsys.readouterr().out)


def test_an_app_is_verified_without_a_changed_line(apps: dict[str, Path], capsys: Any) -> None:
    before = {name: digest(place) for name, place in apps.items()}
    base, better, worse = (str(apps[name]) for name in ("base", "config", "code"))
    code, said = command(capsys, base, worse, better)
    dropped, kept = said["verdicts"]
    assert (code, dropped["verdict"], kept["verdict"]) == (0, "drop", "keep")
    assert kept["candidate"]["kind"] == "flower app"
    assert kept["digests"]["base"] != kept["digests"]["candidate"]
    assert kept["cost"]["bytes"]["ratio"] == 1.0
    # Three rounds of a step towards the mean m of the cohorts' targets leave (1 - lr)^3 of the way: with
    # m near 1.65 a loss near 1.65^2 (0.9^6 - 0.5^6), besides the spread of the targets.
    assert kept["difference"]["mean"] == pytest.approx(1.65**2 * (0.9**6 - 0.5**6), rel=0.1)
    assert kept["tail"]["mean"] > kept["difference"]["mean"]
    assert {name: digest(place) for name, place in apps.items()} == before


def test_an_app_that_names_no_such_metric_is_refused(apps: dict[str, Path], capsys: Any) -> None:
    base, other = (str(apps[name]) for name in ("base", "config"))
    assert main(["verify", base, other, "--metric", "acuracy", "--direction", "maximize", "--quiet"]) == 2
    assert "acuracy" in capsys.readouterr().err
    assert main(["verify", base, other, "--clients", "4", "--quiet"]) == 2
