"""What in a Flower app looks tunable, found without running it: its run config, its code, its metrics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpo.federations.apps.app_file import AppFile
from fedhpo.federations.apps.literals import Literal, is_literal
from fedhpo.federations.apps.sites import Call, NotPlain, calls_in, dotted_name, plain_value

#: Classes and functions that make an optimiser, in any library.
_OPTIMISERS = re.compile(
    r"(SGD|Adam|AdamW|Adamax|NAdam|RAdam|RMSprop|Adagrad|Adadelta|Lion|LBFGS|sgd|adam|adamw|rmsprop)"
)
#: Others whose arguments are hyperparameters: of training, and of the model's shape.
_TRAINERS = ("Trainer", "TrainingArguments", "SFTConfig", "DataLoader", "clip_grad_norm_")
_SHAPES = ("LoraConfig", "Dropout")
_TRAINS = re.compile(r"(^|_)(train|trainer|fit)(_|$)")
#: Keys and arguments that are no hyperparameters.
BESIDE = re.compile(
    r"seed|port|path|dir|device|gpu|cpu|worker|log|save|wandb|verbose|cuda|num[-_]classes|partition|"
    r"fraction|^min[-_].*(node|client)|name|tqdm|compile|enable|progress|use[-_]|eval[-_]|timeout|print",
    re.I,
)
_SHAPE_KEYS = re.compile(r"hidden|width|depth$|layers|rank|lora|embed|heads|latent|dropout|filters", re.I)
_LESS = re.compile(r"loss|error|mae|mse|perplexity|nll|epsilon", re.I)
_MORE = re.compile(r"acc|auc|auroc|f1|score|precision|recall|r2|bleu|dice|iou", re.I)
#: Names in a message that are no metrics.
_RECORDS = ("num-examples", "arrays", "metrics", "config")
#: The place of a learning rate among an optimiser's arguments, behind its parameters.
_RATE = 1


@dataclass(frozen=True)
class Tunable:
    """A value that a study could tune: its scope and name, the app's own value, where that stands."""

    scope: str
    name: str
    value: Any
    where: str
    kind: str


@dataclass(frozen=True)
class Inspected:
    """What was found in an app."""

    tunables: list[Tunable] = field(default_factory=list)
    #: By source (clients, server, training) the metrics that it returns.
    metrics: dict[str, list[str]] = field(default_factory=dict)
    strategy: str | None = None

    def own_value(self, name: str) -> Any:
        """The app's own value of a hyperparameter; `NotPlain` where it is not known."""
        return next((one.value for one in self.tunables if one.name == name), NotPlain)


def inspect_app(app: AppFile) -> Inspected:
    """Look at an app's file and code; nothing is imported."""
    client, server = (app.own[name].partition(":")[0] for name in ("clientapp", "serverapp"))
    package = client.rpartition(".")[0]
    own = app.source(client)
    files = sorted(own.parent.glob("*.py")) if own is not None else []
    found = [*_run_config(app), *_sent(app, server)]
    strategy, arguments = _strategy(app, server)
    found += arguments
    # A function is named by the module that defines it: a client's own `train` may hide it elsewhere.
    functions = {
        one.name: (file.stem if package else client, one) for file in files for one in _functions(file)
    }
    for file in files:
        if file == app.source(server) != own:
            continue
        module = file.stem if package else client
        found += _literals(app, file, module, functions)
    unique = {(one.scope, one.name): one for one in reversed(found)}
    return Inspected(list(reversed(unique.values())), _metrics(app, client, server, files), strategy)


def _run_config(app: AppFile) -> Iterator[Tunable]:
    for key, value in app.config.items():
        if isinstance(value, str) or BESIDE.search(key) or key == app.rounds_key:
            continue
        scope = "model" if _SHAPE_KEYS.search(key) and not isinstance(value, bool) else "client"
        yield Tunable(scope, key, value, "pyproject.toml", "run config")


def _sent(app: AppFile, server: str) -> Iterator[Tunable]:
    """What the server writes into the config that it sends to clients."""
    file = app.source(server)
    for node in ast.walk(_tree(file)):
        table = None
        if (
            isinstance(node, ast.Call)
            and (dotted_name(node.func) or "").endswith("ConfigRecord")
            and node.args
        ):
            table = node.args[0]
        elif isinstance(node, ast.FunctionDef) and re.search(r"fit_config|train_config|on_fit", node.name):
            yield from _of_function(node, file, app)
        for key, value in _items(table):
            if isinstance(value, int | float) and not BESIDE.search(key):
                yield Tunable("client", key, value, _place(app, file, node), "train config")


def _of_function(node: ast.FunctionDef, file: Path | None, app: AppFile) -> Iterator[Tunable]:
    """The keys of the dicts that a function returns; a value that it names is the first it gives to it."""
    given: dict[str, Any] = {}
    for one in ast.walk(node):
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            given.setdefault(one.targets[0].id, plain_value(one.value))
    for one in ast.walk(node):
        if not isinstance(one, ast.Return) or not isinstance(one.value, ast.Dict):
            continue
        for key, value in zip(one.value.keys, one.value.values, strict=True):
            name = plain_value(key) if key is not None else NotPlain
            found = given.get(value.id, NotPlain) if isinstance(value, ast.Name) else plain_value(value)
            if isinstance(name, str) and isinstance(found, int | float) and not isinstance(found, bool):
                yield Tunable("client", name, found, _place(app, file, one), "train config")


def _strategy(app: AppFile, server: str) -> tuple[str | None, list[Tunable]]:
    """The strategy that the server makes, and what of its arguments can be tuned."""
    from fedhpo.federations.strategies.step import SET_ASIDE

    file = app.source(server)
    for call in calls_in(file) if file is not None else ():
        name = call.callee.rpartition(".")[2]
        kinds = [getattr(module, name, None) for module in _flower_strategies()]
        kind = next((one for one in kinds if isinstance(one, type)), None)
        if kind is None:
            continue
        where = f"{file.relative_to(app.path)}:{call.line}" if file is not None else ""
        found = []
        for argument, default in _defaults(kind).items():
            value = call.given.get(argument, default)
            if isinstance(value, int | float) and not isinstance(value, bool) and argument not in SET_ASIDE:
                found.append(Tunable("server", argument, value, where, f"strategy {name}"))
        return name, found
    return None, []


def _flower_strategies() -> list[Any]:
    import flwr.server.strategy
    import flwr.serverapp.strategy

    return [flwr.serverapp.strategy, flwr.server.strategy]


def _defaults(kind: type[Any]) -> dict[str, Any]:
    import inspect

    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


def _functions(file: Path) -> Iterator[ast.FunctionDef]:
    return (one for one in _tree(file).body if isinstance(one, ast.FunctionDef))


def _literals(
    app: AppFile, file: Path, module: str, functions: dict[str, tuple[str, ast.FunctionDef]]
) -> Iterator[Tunable]:
    """Arguments written out in calls of optimisers, trainers and the app's own training functions."""
    for call in calls_in(file):
        where = f"{file.relative_to(app.path)}:{call.line}"
        home, function = functions.get(call.callee, (module, None))
        known = kind_of_call(call.callee)
        if known is None and function is not None and _TRAINS.search(call.callee):
            known = "training function", "client"
        if known is None:
            continue
        kind, scope = known
        for argument, value in _given(call, function, kind).items():
            if isinstance(value, bool | int | float) and not BESIDE.search(argument):
                yield Tunable(scope, f"{home}:{call.callee}.{argument}", value, where, kind)


def kind_of_call(callee: str) -> tuple[str, str] | None:
    """What arguments of a call are, and the scope they belong to, if they are hyperparameters.

    >>> kind_of_call("torch.optim.AdamW"), kind_of_call("LoraConfig"), kind_of_call("print")
    (('optimiser', 'client'), ('model', 'model'), None)
    """
    last = callee.rpartition(".")[2]
    if _OPTIMISERS.fullmatch(last):
        return "optimiser", "client"
    if last in _TRAINERS:
        return "trainer", "client"
    return ("model", "model") if last in _SHAPES else None


def _given(call: Call, function: ast.FunctionDef | None, kind: str) -> dict[str, Any]:
    """The arguments of a call by name: those written out, and defaults of the app's own function."""
    found: dict[str, Any] = {}
    if function is not None:
        names = [one.arg for one in function.args.args]
        defaults = function.args.defaults
        tail = names[len(names) - len(defaults) :]
        found = {name: plain_value(one) for name, one in zip(tail, defaults, strict=True)}
        found |= dict(zip(names, call.positions, strict=False))
    elif kind == "optimiser" and len(call.positions) > _RATE:
        found["lr"] = call.positions[_RATE]
    return {**found, **call.given}


def _metrics(app: AppFile, client: str, server: str, files: list[Path]) -> dict[str, list[str]]:
    """The names of what clients return of `evaluate` and `train`, and the server of its `evaluate_fn`."""
    found: dict[str, list[str]] = {"clients": [], "server": [], "training": []}
    own, main = app.source(client), app.source(server)
    for file in files:
        for node in ast.walk(_tree(file)):
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = {_mark(one) for one in node.decorator_list}
            if file == own and ("evaluate" in marks or node.name == "evaluate"):
                found["clients"] += _returned(node, older="evaluate" not in marks)
            elif file == own and ("train" in marks or node.name == "fit"):
                found["training"] += _returned(node)
            elif file == main and _scores(node):
                found["server"] += _returned(node, older=not _mentions(node, "MetricRecord"))
    return {source: list(dict.fromkeys(names)) for source, names in found.items() if names}


def _scores(node: ast.FunctionDef) -> bool:
    """Whether a function of the server's may be an `evaluate_fn`: it takes a round and a model."""
    names = [one.arg for one in node.args.args]
    return len(names) in (2, 3) and bool(re.search(r"round", names[0]))


def _mark(node: ast.expr) -> str | None:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else None


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def _returned(node: ast.FunctionDef, *, older: bool = False) -> list[str]:
    """The keys of dicts in a function that hold numbers by name."""
    found = ["loss"] if older and any(_is_tuple(one) for one in ast.walk(node)) else []
    arrays = {
        id(argument)
        for one in ast.walk(node)
        if isinstance(one, ast.Call) and (dotted_name(one.func) or "").endswith("ArrayRecord")
        for argument in one.args
    }
    for one in ast.walk(node):
        if isinstance(one, ast.Dict) and id(one) not in arrays:
            for key, value in zip(one.keys, one.values, strict=True):
                name = _text(key)
                if name is not None and not _is_record(value) and name not in _RECORDS:
                    found.append(name)
    return found


def _text(node: ast.expr | None) -> str | None:
    """A key as a text; of an f-string such as f"{prefix}_loss" nothing is known but its end."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in node.values)
    return None


def _is_tuple(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)


def _is_record(node: ast.expr) -> bool:
    """Whether a value is a record rather than a number: then the dict is a message's content."""
    name = dotted_name(node.func) if isinstance(node, ast.Call) else dotted_name(node)
    return bool(name and re.search(r"record", name, re.I))


def _items(node: ast.AST | None) -> Iterator[tuple[str, Any]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            name = _text(key)
            if name is not None:
                yield name, plain_value(value)


def _tree(file: Path | None) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8")) if file is not None else ast.Module([], [])
    except (SyntaxError, UnicodeDecodeError, OSError):
        return ast.Module([], [])


def _place(app: AppFile, file: Path | None, node: Any) -> str:
    return f"{file.relative_to(app.path)}:{node.lineno}" if file is not None else ""


def direction_of(metric: str) -> str | None:
    """Whether less or more of a metric is better, by its name.

    >>> direction_of("eval_loss"), direction_of("cen_accuracy"), direction_of("steps")
    ('minimize', 'maximize', None)
    """
    if _LESS.search(metric):
        return "minimize"
    return "maximize" if _MORE.search(metric) else None


def own_values(app: AppFile, names: list[str]) -> dict[str, Any]:
    """The app's own values of what does not stand in its run config, as far as they are known."""
    if not names:
        return {}
    found = inspect_app(app)
    values: dict[str, Any] = {}
    for name in names:
        same = [one for one in found.tunables if one.name == name]
        if not same and is_literal(name):
            wanted = Literal.of(name, app)
            same = [
                one
                for one in found.tunables
                if is_literal(one.name)
                and Literal.of(one.name, app).argument == wanted.argument
                and Literal.of(one.name, app).path[-1] == wanted.path[-1]
            ]
        if same:
            values[name] = same[0].value
    return values
