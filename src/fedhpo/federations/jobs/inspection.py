"""What in an NVFlare job looks tunable, found without running it: options, arguments in code, metrics."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.federations.apps.first_study import study_text
from fedhpo.federations.apps.inspection import BESIDE, Inspected, Tunable, kind_of_call
from fedhpo.federations.apps.sites import NotPlain, calls_in, dotted_name, plain_value
from fedhpo.federations.jobs.job_file import SCRIPT, JobFile, tree

#: Options that say how long and with whom to train: the study says that.
_ROUNDS = re.compile(r"^(num[-_])?rounds?([-_]num)?$|^(fl[-_])?num[-_]rounds$", re.I)
_SITES = re.compile(
    r"^n?[-_]?(num[-_]?)?(clients|sites?)([-_](num|names))?$|^min[-_]clients$|(train|test)[-_]size|data|"
    r"stream|_gc_|thread|percentage",
    re.I,
)


def inspect_job(job: JobFile) -> Inspected:
    """Look at a job's code; nothing is imported or run."""
    found: list[Tunable] = []
    metrics: list[str] = []
    for file in _files(job):
        found += [*_options(job, file), *_literals(job, file)]
        metrics += _metrics(file)
    unique = {(one.scope, one.name): one for one in reversed(found)}
    sources = {"training": list(dict.fromkeys(metrics))} if metrics else {}
    return Inspected(list(reversed(unique.values())), sources)


def own_rounds(job: JobFile) -> int | None:
    """The number of rounds that the job's script has as the default of an option, or as an argument."""
    for file in _files(job):
        for name, value in _defaults(file):
            if _ROUNDS.search(name) and type(value) is int:
                return value
        for call in calls_in(file):
            if type(rounds := call.given.get("num_rounds")) is int:
                return int(rounds)
    return None


def first_study(job: JobFile, found: Inspected) -> str:
    """The study file of a job as a text."""
    place = job.path if job.script in (None, SCRIPT) else job.path / job.script
    head = ["[job]", f"path = {json.dumps(str(place))}"]
    if job.script is None:
        head.append("clients = 2  # an exported job does not say how many sites there are")
    rounds = own_rounds(job) or 5
    budget = [f"rounds = {min(rounds, 10)}", "# cohort: a job trains all its sites in every round"]
    return study_text("fedhpo nvflare inspect", head, found, budget)


def _files(job: JobFile) -> list[Path]:
    """The job's script, and the files that it names or imports, these likewise; all of an exported job."""
    files = {file.stem: file for file in job.files}
    if job.script is None:
        return list(files.values())
    found = [job.path / job.script]
    for file in found:  # grows on the way
        words = set(re.findall(r"\w+", file.read_text(encoding="utf-8", errors="replace")))
        found += [other for stem, other in files.items() if stem in words and other not in found]
    return found


def _defaults(file: Path) -> Iterator[tuple[str, Any]]:
    """The options of parsers, with their defaults."""
    for call in calls_in(file):
        names = [one for one in call.positions if isinstance(one, str) and one.startswith("--")]
        if call.callee.endswith("add_argument") and names:
            value = False if call.given.get("action") == "store_true" else call.given.get("default", NotPlain)
            yield names[0].lstrip("-"), value


def _options(job: JobFile, file: Path) -> Iterator[Tunable]:
    for name, value in _defaults(file):
        tunable = isinstance(value, int | float) and not isinstance(value, bool)
        if tunable and not any(pattern.search(name) for pattern in (BESIDE, _ROUNDS, _SITES)):
            yield Tunable("client", name, value, str(file.relative_to(job.path)), "option")


def _literals(job: JobFile, file: Path) -> Iterator[Tunable]:
    """Arguments of optimisers and trainers, written out or held by a variable of the file."""
    variables = _variables(file)
    for node in ast.walk(tree(file)):
        callee = dotted_name(node.func) if isinstance(node, ast.Call) else None
        found = kind_of_call(callee) if callee else None
        if found is None or not isinstance(node, ast.Call):
            continue
        kind, scope = found
        for keyword in node.keywords:
            value = plain_value(keyword.value)
            if isinstance(keyword.value, ast.Name):
                value = variables.get(keyword.value.id, NotPlain)
            name = f"{file.stem}:{callee}.{keyword.arg}"
            if keyword.arg is None or not isinstance(value, int | float) or BESIDE.search(keyword.arg):
                continue
            try:
                job.literal(name)
            except InputError:
                continue  # it cannot be bound from outside
            yield Tunable(scope, name, value, f"{file.relative_to(job.path)}:{node.lineno}", kind)


def _variables(file: Path) -> dict[str, Any]:
    """Names that are given one plain value in the file."""
    found: dict[str, list[Any]] = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(plain_value(node.value))
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _metrics(file: Path) -> Iterator[str]:
    """What sites say of training: in replies, to trackers, by Lightning's `log`, by XGBoost."""
    for node in ast.walk(tree(file)):
        if not isinstance(node, ast.Call):
            continue
        callee = (dotted_name(node.func) or "").rpartition(".")[2]
        given = {one.arg: one.value for one in node.keywords}
        if callee == "FLModel" and isinstance(table := given.get("metrics"), ast.Dict):
            yield from (key.value for key in table.keys if isinstance(key, ast.Constant))  # type: ignore[misc]
        elif callee in ("add_scalar", "log", "log_metric"):
            tag = given.get("tag", given.get("name", node.args[0] if node.args else None))
            if isinstance(tag, ast.Constant) and isinstance(tag.value, str):
                yield tag.value
        elif callee == "add_argument" and "eval_metric" in ast.dump(node):
            value = plain_value(given["default"]) if "default" in given else NotPlain
            if isinstance(value, str):
                yield value
