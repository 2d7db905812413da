"""Calls in an app's code, found without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.literals import Literal


@dataclass(frozen=True)
class Call:
    """A call: its file, its line, what is called, and which arguments are written out as plain values."""

    file: Path
    line: int
    callee: str
    given: dict[str, Any] = field(hash=False)
    positions: tuple[Any, ...] = field(default=(), hash=False)
    inside: str | None = None


def calls_in(file: Path) -> Iterator[Call]:
    """The calls of a file whose callee is a name, in the order of its lines."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return
    yield from _calls(tree, file, None)


def _calls(node: ast.AST, file: Path, inside: str | None) -> Iterator[Call]:
    for child in ast.iter_child_nodes(node):
        within = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and inside is None:
            within = child.name
        if isinstance(child, ast.Call) and (name := dotted_name(child.func)):
            given = {one.arg: plain_value(one.value) for one in child.keywords if one.arg}
            positions = tuple(plain_value(one) for one in child.args)
            yield Call(file, child.lineno, name, given, positions, inside)
        yield from _calls(child, file, within)


def dotted_name(node: ast.AST) -> str | None:
    """`torch.optim.SGD` as a text; None for what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted_name(node.value)):
        return f"{before}.{node.attr}"
    return None


class NotPlain:
    """Stands for an argument that is no plain value."""


def plain_value(node: ast.AST) -> Any:
    """A number, a text or a truth value that is written out; `NotPlain` for anything else."""
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return NotPlain
    return found if isinstance(found, int | float | str | bool) else NotPlain


def clients_evaluate(app: AppFile) -> bool:
    """Whether the app's client, or a class beside it, has an `evaluate`; without importing anything."""
    own = app.source(app.own["clientapp"].partition(":")[0])
    for file in [] if own is None else own.parent.glob("*.py"):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                if any(isinstance(one, ast.FunctionDef) and one.name == "evaluate" for one in node.body):
                    return True
            elif isinstance(node, ast.FunctionDef) and file == own:
                for mark in node.decorator_list:
                    called = mark.func if isinstance(mark, ast.Call) else mark
                    if isinstance(called, ast.Attribute) and called.attr == "evaluate":
                        return True
    return False


def reads_rounds(app: AppFile, key: str) -> bool:
    """Whether the app's code looks at its number of rounds for more than to say how long to train."""
    server = app.source(app.own["serverapp"].partition(":")[0])
    own = app.source(app.own["clientapp"].partition(":")[0])
    names = {key, key.replace("-", "_"), key.rpartition(".")[2].replace("-", "_")}
    for file in [] if own is None else sorted(own.parent.glob("*.py")):
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        if file != server or file == own:
            if any(_names(node) & names for node in ast.walk(tree)):
                return True
        elif _uses_rounds(tree, names):
            return True
    return False


def _names(node: ast.AST) -> set[str]:
    """What a node looks up: a key as a text, an attribute, a variable."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    return {node.attr} if isinstance(node, ast.Attribute) else set()


def _uses_rounds(tree: ast.Module, names: set[str]) -> bool:
    """Whether a server's module uses its number of rounds elsewhere than as `num_rounds=` of a call."""
    told = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "num_rounds"
        for part in ast.walk(node.value)
    }
    kept: set[str] = set()
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(value, ast.AST):
            continue
        if any(_names(part) & names for part in ast.walk(value)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            kept |= {one.id for one in targets if isinstance(one, ast.Name)}
            told |= {id(part) for part in ast.walk(value)}
    return any(
        (_names(node) & names or (isinstance(node, ast.Name) and node.id in kept))
        and id(node) not in told
        and not isinstance(getattr(node, "ctx", None), ast.Store)
        for node in ast.walk(tree)
    )


def call_sites(app: AppFile, literal: Literal) -> list[tuple[str, int, str]]:
    """Where the app calls what a literal names: file, line and callee."""
    found = []
    meant = ".".join(literal.path)
    own = app.source(literal.module)
    files = sorted(app.path.rglob("*.py")) if own is None else [own, *sorted(own.parent.glob("*.py"))]
    for file in dict.fromkeys(files):
        for call in calls_in(file):
            same = call.callee == meant or (
                own is None and call.callee.rpartition(".")[2] == literal.path[-1]
            )
            if same and (file == own or own is None or literal.argument in call.given):
                found.append((str(file.relative_to(app.path)), call.line, call.callee))
    if own is not None and any(place[0] == str(own.relative_to(app.path)) for place in found):
        found = [place for place in found if place[0] == str(own.relative_to(app.path))]
    return found
