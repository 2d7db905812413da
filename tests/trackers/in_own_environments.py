"""Run the tests of each tracker against its real package, each in an environment of its own.

So are those of other packages that users may have and `make test` does not install: tables and boosted trees.
An environment sees what is installed here, and its own packages first: no second torch is fetched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent
#: By environment, its packages and what pytest is given.
ENVIRONMENTS = {
    name: ((package,), (str(HERE / "test_trackers.py"), "-k", f"test_{name}"))
    for name, package in {
        "tensorboard": "tensorboard",
        "mlflow": "mlflow-skinny",
        "wandb": "wandb",
        "trackio": "trackio",
        "dashboard": "optuna-dashboard",
    }.items()
} | {
    "tables": (
        ("pandas", "pyarrow"),
        tuple(
            str(TESTS / name)
            for name in ("tuning/test_load.py", "tuning/test_export.py", "data/test_columns.py")
        ),
    ),
    "boosters": (("lightgbm", "catboost"), (str(TESTS / "learners/test_estimators.py"),)),
}


def environment(name: str, packages: Sequence[str]) -> Path:
    """The Python of an environment with these packages; made where it is not there."""
    place = HERE.parents[1] / "build" / "trackers" / name
    python = place / "bin" / "python"
    if not (place / ".installed").is_file():
        venv.create(place, with_pip=True, clear=True)
        inner = subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
        Path(inner, "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        subprocess.run([python, "-m", "pip", "install", "-q", *map(pinned, packages)], check=True)
        (place / ".installed").touch()
    return python


def pinned(package: str) -> str:
    """The package with our version of it; what it needs besides is its own affair."""
    pins = (HERE.parents[1] / "constraints.txt").read_text().split()
    return next(pin for pin in pins if pin.startswith(f"{package}=="))


def main() -> int:
    """Nonzero if the tests of one of them fail, or are skipped."""
    failed = []
    for name, (packages, tests) in ENVIRONMENTS.items():
        python = environment(name, packages)
        source = str(HERE.parents[1] / "src")
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rpsf", *tests],
            env={**os.environ, "PYTHONPATH": source},
            capture_output=True,
            text=True,
        )
        fine = done.returncode == 0 and "PASSED" in done.stdout and "SKIPPED" not in done.stdout
        print(f"{name}: {'passed' if fine else 'failed'}")
        if not fine:
            print(done.stdout[-4000:], done.stderr[-1000:])
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
