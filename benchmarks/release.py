"""Would a release install and work? `make release-check`, outside `make test`: it installs many packages.

Builds sdist and wheel, looks into the wheel, compares versions, installs the wheel without extras into a
clean environment and types the first commands there, then installs it with each extra and imports what the
extra brings. `--coverage` also runs the tests under coverage; the floor stands in pyproject.toml.

Every environment lies in a directory of its own below `--work`; those of extras see the packages of the first
one, so that torch is installed once. One line is printed for each check; the exit code is 1 if one failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: What each extra brings, as it is imported; of those that are lists of others, nothing.
IMPORTS = {
    "images": "PIL",
    "tabular": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "optuna": "optuna",
    "pandas": "pandas",
    "parquet": "pyarrow",
    "finetune": "transformers, peft",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "trackio": "trackio",
    "privacy": "opendp, dp_accounting",
    "flower": "flwr",
    "nvflare": "nvflare",
    "ray": "ray",
    "ui": "starlette, uvicorn",
    "completion": "argcomplete",
    "agents": "mcp",
    "all": "PIL, xgboost, optuna, pandas, opendp, flwr, ray, starlette, argcomplete, mcp",
    "dev": "pytest, mypy, ruff",
    "docs": "mkdocs",
}
TRACKERS = ("tensorboard", "mlflow", "wandb", "trackio")
#: Files without which the wheel does not work, and the most bytes that it may have.
NEEDED = ("fedhpo/py.typed", "fedhpo/pages/vendor/plotly-cartesian.min.js", "fedhpo/ui/static/index.html")
MOST_BYTES = 12_000_000
#: What a newcomer types: in an empty directory, then in that of the study.
TYPED = {
    "fedhpo --version": ".",
    "fedhpo new torch my-study": ".",
    "fedhpo check study.toml": "my-study",
    "fedhpo tune study.toml --quiet --name first": "my-study",
    "fedhpo report runs/first": "my-study",
    "fedhpo export runs/first trials.csv --to csv": "my-study",
}


def main() -> int:
    """Run the checks that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="where environments are made (default: a new directory)")
    parser.add_argument("--extras", nargs="*", help="these only; none: no extra (default: all)")
    parser.add_argument(
        "--coverage", nargs="*", metavar="TESTS", help="run the tests under coverage, too: all, or these"
    )
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="fedhpo-release-"))
    work.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    wheel = checks.do("sdist and wheel are built", lambda: _built(work))
    if wheel is None:
        return 1
    checks.do("versions agree", lambda: _versions(wheel))
    checks.do("the wheel's contents", lambda: _contents(wheel))
    clean = work / "clean"
    if checks.do("installed without extras", lambda: _install(clean, str(wheel))) is not None:
        empty = Path(tempfile.mkdtemp(dir=work))
        for line, place in TYPED.items():
            checks.do(line, lambda line=line, place=place: _typed(line, clean, empty / place))
        checks.do("every module of the wheel is imported", lambda: _import_all(clean, wheel, work))
        for extra in IMPORTS if given.extras is None else given.extras:
            checks.do(f"extra {extra}", lambda extra=extra: _extra(extra, wheel, work, clean))
    if given.coverage is not None:
        checks.do("the tests, under coverage", lambda: _tests(work / "coverage", given.coverage))
        checks.do("coverage", lambda: _covered(work / "coverage"))
    print(f"{checks.failed} of {checks.count} failed; environments are in {work}")
    return int(checks.failed > 0)


class Checks:
    """Counts checks, and prints a line for each."""

    def __init__(self) -> None:
        self.count = self.failed = 0

    def do(self, name: str, check: Callable[[], T]) -> T | None:
        """What the check gives; None where it failed."""
        self.count += 1
        began = time.monotonic()
        try:
            found = check()
        except (subprocess.CalledProcessError, AssertionError) as error:
            self.failed += 1
            said = error.stdout if isinstance(error, subprocess.CalledProcessError) else str(error)
            tail = " | ".join((said or "").strip().splitlines()[-3:])
            print(f"FAILED  {name:52} {time.monotonic() - began:6.1f} s  {tail[:400]}", flush=True)
            return None
        words = found if isinstance(found, str) else ""
        print(f"ok      {name:52} {time.monotonic() - began:6.1f} s  {words}", flush=True)
        return found


def _run(
    *command: str | Path,
    cwd: Path | None = None,
    timeout: float = 1800,
    environment: dict[str, str] | None = None,
) -> str:
    """What a command prints; if not told otherwise, in an environment that knows nothing of this clone."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "FEDHPO_DATA")
    environment = environment or {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=timeout,
    ).stdout


def _environment(path: Path) -> Path:
    venv.create(path, with_pip=True, clear=True)
    return path / "bin" / "python"


def _built(work: Path) -> Path:
    """The wheel, built from the sdist, as those who have no wheel do."""
    python = _environment(work / "build")
    _run(python, "-m", "pip", "install", "-q", *_requires())
    out = work / "dist"
    _run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=ROOT)
    [sdist] = out.glob("*.tar.gz")
    _run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, sdist)
    [wheel] = out.glob("*.whl")
    return wheel


def _requires() -> list[str]:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    return [str(one) for one in build["requires"]]


def _versions(wheel: Path) -> str:
    version = wheel.name.split("-")[1]
    found = {
        "src/fedhpo/core/version.py": rf'^VERSION = "{re.escape(version)}"$',
        "CITATION.cff": rf"^version: {re.escape(version)}$",
        "CHANGELOG.md": rf"\A# Changes\n\n## {re.escape(version)}\b",
        "papers/pyproject.toml": rf"fedhpo.*=={re.escape(version)}",
    }
    wrong = [
        name
        for name, pattern in found.items()
        if not re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not wrong, f"the wheel is {version}; not so {', '.join(wrong)}"
    return version


def _contents(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = {name: archive.read(name) for name in names if name.endswith(("/METADATA", "/LICENSE"))}
    missing = [name for name in NEEDED if name not in names]
    assert not missing, f"missing: {missing}"
    strange = [name for name in names if not name.startswith(("fedhpo/", "fedhpo-"))]
    assert not strange, f"beside fedhpo: {strange[:5]}"
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    assert any(name.endswith("/LICENSE") for name in texts), "no licence"
    size = wheel.stat().st_size
    assert size <= MOST_BYTES, f"{size:,} bytes, at most {MOST_BYTES:,}"
    return f"{len(names)} files, {size / 1e6:.1f} MB"


def _install(path: Path, what: str) -> str:
    python = _environment(path)
    _run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", what)
    listed = _run(python, "-m", "pip", "list", "--format", "freeze").splitlines()
    return f"{len(listed)} packages"


def _typed(line: str, environment: Path, directory: Path) -> str:
    command, *arguments = line.split()
    return _run(environment / "bin" / command, *arguments, cwd=directory).strip().splitlines()[-1]


def _import_all(environment: Path, wheel: Path, work: Path) -> str:
    """Modules that need no extra are imported without one; a missing extra is named, not a surprise."""
    with zipfile.ZipFile(wheel) as archive:
        modules = [
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for name in archive.namelist()
            if name.endswith(".py") and not name.endswith("__main__.py")
        ]
    script = f"""
import importlib, sys
lacking = {{}}
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        lacking.setdefault((error.name or str(error)).split(".")[0], []).append(name)
ours = [name for name in lacking if name == "fedhpo"]
words = ", ".join(f"{{package}} ({{len(names)}})" for package, names in lacking.items())
print(ours or f"{len(modules)} modules; lacking: {{words}}")
sys.exit(bool(ours))
"""
    return _run(environment / "bin" / "python", "-c", script, cwd=work).strip().splitlines()[-1]


def _extra(extra: str, wheel: Path, work: Path, clean: Path) -> str:
    """The wheel with an extra, on top of what is installed without one, and what it brings imported."""
    assert extra in PROJECT["optional-dependencies"], f"no extra; known: {', '.join(IMPORTS)}"
    python = _environment(work / f"extra-{extra}")
    [packages] = (work / f"extra-{extra}" / "lib").glob("python*/site-packages")
    [beneath] = (clean / "lib").glob("python*/site-packages")
    (packages / "beneath.pth").write_text(f"{beneath}\n", encoding="utf-8")
    # Trackers' pins conflict with ours: see tests/trackers/in_own_environments.py.
    limits = [] if extra in TRACKERS else ["-c", ROOT / "constraints.txt"]
    _run(python, "-m", "pip", "install", "-q", *limits, f"{wheel}[{extra}]")
    _run(python, "-c", f"import fedhpo, {IMPORTS[extra]}", cwd=work)
    return IMPORTS[extra]


def _tests(data: Path, tests: list[str]) -> str:
    """The tests under coverage, as `make tests` runs them; processes that they start do not count."""
    packages = data / "packages"
    tools = ("coverage>=7.10", "pytest-cov>=7")
    # In a directory of its own: coverage is no part of the environment that is tested.
    _run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", packages, *tools)
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-m", "not matrix"]
    command += ["--ignore", "tests/nvflare", "--cov", "--cov-report=", "--cov-fail-under=0", *tests]
    said = _run(*command, cwd=ROOT, timeout=7200, environment=_measured(data))
    return said.strip().splitlines()[-1]


def _covered(data: Path) -> str:
    """The share of lines that the tests ran; the floor stands in pyproject.toml."""
    said = _run(sys.executable, "-m", "coverage", "report", cwd=ROOT, environment=_measured(data))
    (data / "report.txt").write_text(said, encoding="utf-8")
    return said.strip().splitlines()[-1]


def _measured(data: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(data / "packages"), os.environ.get("PYTHONPATH")]))
    names = {"PYTHONPATH": path, "COVERAGE_FILE": str(data / "data"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **names}


if __name__ == "__main__":
    sys.exit(main())
