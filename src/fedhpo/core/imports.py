"""Who imports whom, read from source files without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def module_name(folder: Path, file: Path) -> str:
    """What a file of the package in a folder is called.

    >>> module_name(Path("src/fedhpo"), Path("src/fedhpo/space/__init__.py"))
    'fedhpo.space'
    """
    parts = (folder.name, *file.relative_to(folder).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, package: str, inside: bool = True) -> Iterator[str]:
    """Everything imported, by full name, but for what only type checkers see; `inside`: functions count.

    `from a import b` is `a.b`, which is a module, or a name of module `a`.

    >>> source = ast.parse("import os\\ndef f():\\n    from . import paired")
    >>> list(imports(source, "fedhpo.search")), list(imports(source, "fedhpo.search", inside=False))
    (['os', 'fedhpo.search.paired'], ['os'])
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from imports(ast.Module(node.orelse, []), package, inside)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{start}.{alias.name}" for alias in node.names)
        elif inside or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, package, inside)
