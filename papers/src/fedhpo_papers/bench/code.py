"""Which modules of fedhpo and of this package a cell can depend on, and one digest of them.

They are found by a rule: all that the module of the cells imports, what these import in turn, and so on, also
inside functions. Left out is what only type checkers see, what functions of `fedhpo.study` import (they
build federations that train, in whose place a table stands), and the list of names of the package that the
cells are in, which has their pages in it. Comments, doc strings and layout do not count, so that cells which
were played are still good after a page, a command or a doc string has changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import fedhpo
from fedhpo.core.digests import digest
from fedhpo.core.imports import imports, module_name

#: The package whose functions' imports are for training.
_TRAINS = "fedhpo.study"


#: The folders of the packages that cells depend on.
FOLDERS = (Path(fedhpo.__file__).parent, Path(__file__).parents[1])


@lru_cache(maxsize=4)
def code_digest(folders: tuple[Path, ...] = FOLDERS, start: str = "fedhpo_papers.bench.cells") -> str:
    """Of all modules that `start` can depend on, in the folders of packages."""
    parts = (
        name.encode() + b"\n" + _bare(source) for name, source in sorted(modules(folders, start).items())
    )
    return digest(b"".join(digest(part) for part in parts)).hex()[:12]


def modules(folders: Iterable[Path], start: str) -> dict[str, ast.Module]:
    """The modules of packages that one of them can depend on, itself included, as they were parsed."""
    files = {module_name(folder, file): file for folder in folders for file in folder.rglob("*.py")}
    del files[start.rpartition(".")[0]]  # lists what else is beside the cells
    found: dict[str, ast.Module] = {}
    ahead = [start]
    while ahead:
        name = ahead.pop()
        if name in found or name not in files:
            continue
        found[name] = ast.parse(files[name].read_bytes())
        package = name if files[name].stem == "__init__" else name.rpartition(".")[0]
        inside = not f"{name}.".startswith(f"{_TRAINS}.")
        for imported in imports(found[name], package, inside):
            # `from a import b` takes a module b, or a name of module a; packages above are imported as well.
            steps = imported.split(".")
            ahead += [".".join(steps[: place + 1]) for place in range(len(steps))]
    return found


def _bare(tree: ast.Module) -> bytes:
    """The code without comments, doc strings and layout."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree).encode()
