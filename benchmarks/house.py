"""How tidy the house is, and how tidy it was: counts of the sources, beside those of another commit.

    python benchmarks/house.py [--before COMMIT] [--json] [--no-wheel]

- federations: classes that implement `Federation`, thin subclasses of ours included;
- switches: lines that ask what kind of study it is, by one pattern (`SWITCH`), in all and in study/study.py;
- `_Trial`: classes of that name;
- private names: imports across private borders, and cycles of packages, both by `benchmarks/graph.py`;
- lines of src, and of what a wheel holds; `dict[str, Any]`; `hasattr` of a federation in tuning;
- frames: from `fh.tune` to the code that trains a client in this process, and files on the way.

Each commit is measured by its own sources, in a directory of their own; frames and graph run there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: A line that switches on the kind of study.
SWITCH = re.compile(r"is_learner|BOOSTED|file\.app\b|_is_fedtune")
DUCK = re.compile(r"(has|get)attr\((federation|opened)")
#: What was aimed at.
WANTED = {"switches": "12", "private names": "0", "cycles": "0", "lines of the wheel": "62000"}

FRAMES = """
import sys, traceback, warnings
warnings.simplefilter("ignore")
import fedhpo as fh
from fedhpo.engine import executor
name = "_train_one"
train, seen = getattr(executor.Executor, name), []
def watched(self, *arguments):
    frames = [f for f in traceback.extract_stack() if "fedhpo" in f.filename]
    seen.append((len(frames), len({f.filename for f in frames})))
    return train(self, *arguments)
setattr(executor.Executor, name, watched)
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
federation = fh.simulate("mlp", fh.load("digits", clients=5), workers=0, stacking=False)
fh.tune(federation, space, fh.RandomSearch(trials=1), rounds=1, total=1, cohort=2)
print(*max(seen))  # the preflight is nearer
"""


def main() -> int:
    options = _options()
    here = measured(ROOT, wheel=not options.no_wheel)
    before = None
    if options.before:
        with tempfile.TemporaryDirectory(prefix="house-") as folder:
            archive = subprocess.check_output(["git", "archive", options.before], cwd=ROOT)
            (Path(folder) / "tree.tar").write_bytes(archive)
            with tarfile.open(Path(folder) / "tree.tar") as content:
                content.extractall(Path(folder) / "tree", filter="data")
            before = measured(Path(folder) / "tree", wheel=not options.no_wheel)
    if options.json:
        print(json.dumps({"now": here, "before": before}, indent=2))
        return 0
    width = max(map(len, here))
    print(f"{'':{width}}  {'before':>10}  {'now':>10}  {'wanted':>10}")
    for name, value in here.items():
        then = "" if before is None else _shown(before.get(name))
        print(f"{name:{width}}  {then:>10}  {_shown(value):>10}  {WANTED.get(name, ''):>10}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="COMMIT", help="measure this commit's sources too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-wheel", action="store_true", help="build no wheel")
    return parser.parse_args()


def _shown(value: Any) -> str:
    return "" if value is None else str(value)


def measured(tree: Path, *, wheel: bool = True) -> dict[str, Any]:
    """All counts of one source tree; None where one cannot be had."""
    package = tree / "src" / "fedhpo"
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(package.rglob("*.py"))}
    switches = {
        file: sum(bool(SWITCH.search(line)) for line in text.splitlines()) for file, text in texts.items()
    }
    classes = [node for text in texts.values() for node in ast.walk(ast.parse(text)) if _is_class(node)]
    graph = _graph(tree)
    frames = _frames(tree)
    return {
        "federations": len(federations(classes)),
        "switches": sum(switches.values()),
        "switches in study.py": switches.get(package / "study" / "study.py", 0),
        "classes named _Trial": sum(node.name == "_Trial" for node in classes),
        "private names": graph[1],
        "cycles": graph[0],
        "duck typing in tuning": sum(
            bool(DUCK.search(line))
            for file, text in texts.items()
            if file.is_relative_to(package / "tuning")
            for line in text.splitlines()
        ),
        "dict[str, Any]": sum(len(re.findall(r"\bdict\[str, Any\]", text)) for text in texts.values()),
        "lines of src": sum(len(text.splitlines()) for text in texts.values()),
        "lines of study.py": len(texts[package / "study" / "study.py"].splitlines()),
        "lines of the wheel": _wheel_lines(tree) if wheel else None,
        "frames to the worker": frames[0],
        "files on the way": frames[1],
    }


def _is_class(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef)


def federations(classes: list[Any]) -> set[str]:
    """The names of classes that are federations, however far they inherit."""
    bases = {node.name: {_name(base) for base in node.bases} for node in classes}
    found = {"Federation"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found - {"Federation"}


def _name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):
        return _name(base.value)
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def _run(tree: Path, *command: str) -> str:
    """What a Python process says that imports the tree's sources."""
    paths = os.pathsep.join([str(tree / "src"), str(tree / "papers" / "src")])
    quiet = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=quiet, capture_output=True, text=True, check=False
    )
    return done.stdout


def _graph(tree: Path) -> tuple[int | None, int | None]:
    """Cycles and private names, as this tree's `graph.py` counts them in the other's sources."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import graph; from pathlib import Path; "
        "found = graph.read(Path(sys.argv[2])); print(len(found.cycles), len(found.private))"
    )
    said = _run(ROOT, "-c", script, str(ROOT / "benchmarks"), str(tree / "src" / "fedhpo")).split()
    return (int(said[0]), int(said[1])) if len(said) == 2 else (None, None)


def _frames(tree: Path) -> tuple[int | None, int | None]:
    said = _run(tree, "-c", FRAMES).split()
    return (int(said[-2]), int(said[-1])) if len(said) >= 2 else (None, None)


def _wheel_lines(tree: Path) -> int | None:
    """Lines of Python in the wheel that the tree builds."""
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        _run(tree, "-m", "pip", "wheel", "-q", ".", "--no-deps", "-w", folder)
        wheels = list(Path(folder).glob("*.whl"))
        if not wheels:
            return None
        with zipfile.ZipFile(wheels[0]) as content:
            names = [name for name in content.namelist() if name.endswith(".py")]
            return sum(len(content.read(name).decode().splitlines()) for name in names)


if __name__ == "__main__":
    sys.exit(main())
