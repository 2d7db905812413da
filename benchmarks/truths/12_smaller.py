"""Smaller faults: dropped dates, made-up probabilities, formulas, NaN models, advice, times, `--json`."""

import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import fedhpo as fh
from fedhpo.testing import ToyFederation

STUDY = """
[data]
name = "digits"
clients = 6
[model]
name = "linear"
[client]
train = "own:train"
[space.client]
lr = {low = 0.01, high = 1.0, log = true}
[method]
name = "random"
[budget]
rounds = 1
total = 2
cohort = 2
"""
OWN = """
import os

def train(model, data, hyperparameters, generator):
    print("printed")
    os.write(1, b"written")
"""
SPACE = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})


class NotANumber(torch.nn.Module):
    """Its output is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.flatten(1)) * float("nan")


def dates_are_dropped() -> bool:
    """A column of dates that is left out."""
    Path("dated.csv").write_text("day,x,y\n" + "2024-05-01,1,0\n2024-06-02,2,1\n" * 10)
    data = fh.from_csv(["dated.csv"], label="y", drop=["day"])
    return data.encoding is not None and data.encoding.features == ("x",)


def no_probabilities_are_made_up() -> bool:
    """An SVM has none."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=40).tolist(), "y": ["a", "b"] * 20}
    data = fh.from_frames({"one": rows, "two": rows}, label="y")
    space = fh.Space(client={"gamma": fh.Float(0.1, 1.0)})
    with fh.LearnerFederation(data, "svm", workers=0) as svm:
        result = fh.tune(svm, space, "random", rounds=1, total=1, cohort=2)
    try:
        result.predict_proba({"x": 1.0})
    except fh.InputError as error:
        return "probabilities" in str(error)
    return False


def exported_text_is_no_formula() -> bool:
    """Spreadsheets run what begins with an equals sign."""
    space = fh.Space(client={"lr": 0.1, "rule": fh.Choice(["=cmd|' /C calc'!A0", "b"])})
    fh.tune(ToyFederation(), space, "grid", rounds=1, total=2, cohort=3, run="formulas")
    fedhpo("export", "formulas", "--to", "csv", "trials.csv")
    with open("trials.csv", newline="") as file:
        return not any(cell.startswith("=") for row in csv.reader(file) for cell in row)


def a_nan_model_is_told_why() -> bool:
    """Not that `atol` must be greater."""
    try:
        with fh.simulate(NotANumber, fh.load("digits", clients=4), workers=0) as federation:
            fh.tune(federation, SPACE, "random", rounds=1, total=2, cohort=2)
    except Exception as error:
        return "atol" not in str(error) and "not finite" in str(error)
    return False


def advice_without_a_run_is_possible() -> bool:
    """What was not kept cannot be resumed."""
    result = fh.tune(ToyFederation(), SPACE, rounds=1, cohort=3, callbacks=[lambda event: True])
    try:
        result.best_config  # noqa: B018
    except fh.InputError as error:
        return "resume it" not in str(error)
    return False


def a_finished_run_keeps_its_time() -> bool:
    """Called again it tells the same seconds."""
    times = [
        fh.tune(ToyFederation(), SPACE, "random", rounds=2, total=4, cohort=3, run="timed").facts["times"]
        for _ in range(2)
    ]
    return bool(times[0] == times[1])


def json_is_one_object() -> bool:
    """Whatever a training function prints."""
    Path("study.toml").write_text(STUDY)
    Path("own.py").write_text(OWN)
    try:
        found = json.loads(fedhpo("tune", "study.toml", "--json", "--workers", "0").stdout)
    except ValueError:
        return False
    return bool(found["status"] == "finished")


def a_run_that_is_not_there_is_not_to_be_finished() -> bool:
    """`predict` of a wrong name."""
    Path("rows.csv").write_text("x\n1\n")
    told = fedhpo("predict", "runs/NOPE", "rows.csv").stderr
    return "finish it" not in told and "no such directory" in told


def fedhpo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command."""
    return subprocess.run([sys.executable, "-m", "fedhpo", *arguments], capture_output=True, text=True)


CHECKS: list[Callable[[], bool]] = [
    dates_are_dropped,
    no_probabilities_are_made_up,
    exported_text_is_no_formula,
    a_nan_model_is_told_why,
    advice_without_a_run_is_possible,
    a_finished_run_keeps_its_time,
    json_is_one_object,
    a_run_that_is_not_there_is_not_to_be_finished,
]

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wrong = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path[1:] if path)
        for check in CHECKS:
            try:
                right = check()
            except fh.FedhpoError:
                right = False
            if not right:
                wrong.append(check.__name__)
    print(f"{len(CHECKS) - len(wrong)} of {len(CHECKS)} hold; wrong: {', '.join(wrong) or 'none'}")
    sys.exit(1 if wrong else 0)
