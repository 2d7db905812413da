"""The Python and TOML that pages show: it runs, or, where it is a piece of something larger, it parses."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import sys
import tomllib
import types
import warnings
from importlib.util import find_spec
from pathlib import Path

BLOCK = re.compile(r"^```(python|toml)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)

#: Pieces of apps, clusters and files of the reader's own: these are parsed, not run.
PIECES = {
    "docs/flower.md": "client and server apps of the reader's own",
    "docs/flower-apps.md": "an app of Flower's",
    "docs/nvflare.md": "a job of NVFlare's",
    "docs/bench.md": "tables of the reader's own",
    "docs/ray.md": "a cluster",
    "docs/tables.md": "a table of the reader's own",
    "docs/trackers.md": "packages that conflict with each other",
    "docs/methods/fedtune.md": "takes minutes",
    "CONTRIBUTING.md": "parts of a module",
}

#: Pages whose code needs a package that is no extra of ours: parsed where it is not installed.
NEEDS = {"docs/data.md": "flwr_datasets", "docs/huggingface.md": "datasets"}

#: What the reader has already, on every page.
GIVEN = """
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedhpo as fh
from fedhpo.testing.toy import ToyFederation


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(30, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


class Mine(fh.Method):
    pass


rng = np.random.default_rng(0)
x, y = load_breast_cancer(return_X_y=True)
x = ((x - x.mean(0)) / x.std(0)).astype("float32")
clients = [(x[i::12], y[i::12]) for i in range(12)]
federation = fh.simulate(Net, clients, workers=0)
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
"""

#: What a page needs besides.
BESIDES = {
    "docs/methods/fedex.md": "federation = ToyFederation()",
    "docs/objectives.md": "federation = fh.simulate('mlp', fh.load('digits', clients=10), workers=0)",
    "docs/python.md": "fh.tune(federation, space, 'random', rounds=2, total=4, run='runs/mine')",
}


def run(docs: Path, work: Path) -> int:
    """Run the code of all pages; how many pieces ran. An error names the page and the piece."""
    root, count, here = docs.parent, 0, Path.cwd()
    work.mkdir(parents=True, exist_ok=True)
    for file in (root / "examples/users").glob("*.csv"):
        _with_ids(file, work / file.name)
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted(docs.rglob("*.md"))]
    try:
        os.chdir(work)
        for path in paths:
            count += run_page(path, path.relative_to(root).as_posix())
    finally:
        os.chdir(here)
    return count


def run_page(path: Path, name: str) -> int:
    """Run the code of one page in the working directory; how many pieces it has."""
    shutil.rmtree("runs", ignore_errors=True)
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    python = [text for language, text in blocks if language == "python"]
    for language, text in blocks:
        if language == "toml":
            _toml(text, name)
    module = types.ModuleType("page")  # dataclasses look for the module that they stand in
    sys.modules["page"], known = module, vars(module)
    runs = name not in PIECES and (name not in NEEDS or find_spec(NEEDS[name]) is not None)
    if python and runs:
        exec(compile(f"{GIVEN}\n{BESIDES.get(name, '')}", f"before {name}", "exec"), known)
    for number, text in enumerate(python, 1):
        where = f"{name}, piece {number} of Python"
        if text.startswith("# examples/"):  # a part of a file that the tests run
            continue
        ast.parse(text, where)
        if runs:
            _run(text.replace("fh.tune(...,", "fh.tune(federation, space, rounds=2,"), where, known)
    return len(blocks)


def _run(text: str, where: str, known: dict[str, object]) -> None:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that a page's code has no file
            exec(compile(text, where, "exec"), known)
    except Exception as error:
        raise SystemExit(
            f"{where} does not run: {type(error).__name__}: {error}\n{said.getvalue()}"
        ) from error


def _toml(text: str, name: str) -> None:
    """A whole study must be one; a part of one must parse."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SystemExit(f"{name}: TOML that does not parse: {error}\n{text}") from error
    if {"budget", "data", "model"} <= set(found):
        import fedhpo as fh

        fh.Study.from_dict(found)


def _with_ids(source: Path, target: Path) -> None:
    """The users' files, with the column `id` that the page of tables drops."""
    first, *rows = source.read_text(encoding="utf-8").splitlines()
    lines = [f"id,{first}", *(f"{number},{row}" for number, row in enumerate(rows))]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
