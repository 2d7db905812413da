"""`fedhpo compare`: methods side by side, on a table or live."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.cli import OK
from fedhpo.cli.output import print_json
from fedhpo.cli.tune import note

if TYPE_CHECKING:
    from fedhpo.research.compare import Comparison
    from fedhpo.study import Study


def run(options: argparse.Namespace) -> int:
    """Compare, write the page, say what came of it."""
    from fedhpo.pages.numbers import finite
    from fedhpo.research.compare.page import write_comparison

    methods = list(dict.fromkeys(options.method or ["random", "tpe", "hyperband", "bohb"]))
    comparison = _compare(options, methods, list(range(options.seeds)))
    page = write_comparison(comparison, options.output or f"compare-{comparison.name}.html")
    if options.json:
        print_json({"report": str(page), **finite(comparison.to_dict())})
    else:
        print(summary(comparison))
        print(page)
    return OK


def _compare(options: argparse.Namespace, methods: list[str], seeds: list[int]) -> Comparison:
    from fedhpo.core.errors import InputError
    from fedhpo.research.compare import compare_live, compare_on_table
    from fedhpo.research.tables import load_table
    from fedhpo.study import Study

    if options.table is None and options.study is None:
        raise InputError("STUDY or --table: one of them must say what to compare on")
    study = Study.load(options.study) if options.study else load_table(options.table).study
    study = adjusted(study, options)
    if study.criteria:
        raise InputError(
            "compare ranks methods by one objective: leave out objectives and constraints, and write the one "
            "that counts into [objective]"
        )
    if options.table is not None:
        return compare_on_table(
            options.table,
            methods,
            seeds,
            study=study,
            heterogeneity=options.heterogeneity,
            surrogate=options.surrogate,
            workers=options.workers,
        )
    for option in ("heterogeneity", "surrogate"):
        if getattr(options, option):
            raise InputError(f"--{option}: needs --table")
    if not options.quiet:
        note(cost_ahead(study, methods, seeds, chosen=bool(options.method)))
    directory = Path(options.runs) / f"compare-{study.name}"
    return compare_live(
        study, methods, seeds, runs=directory, workers=options.workers, progress=_progress(options.quiet)
    )


def cost_ahead(study: Study, methods: list[str], seeds: list[int], *, chosen: bool) -> str:
    """What a live comparison will train, said before it begins."""
    budget = study.file.budget
    total = budget.total or 10 * budget.rounds
    runs = len(methods) * len(seeds)
    text = (
        f"about to train {len(methods)} methods ({', '.join(methods)}) x {len(seeds)} seeds: {runs} runs of "
        f"{total} rounds, {runs * total} rounds in all"
    )
    return text if chosen else f"{text}; -m NAME and --seeds N make it less, --table replays one in seconds"


def adjusted(study: Study, options: argparse.Namespace) -> Study:
    """The study with what the command line says of budget and evaluation."""
    from fedhpo.study import Study

    given: dict[str, Any] = {**study.given}
    evaluation = dict(given.get("evaluation", {}))
    if options.total is not None:
        given["budget"] = {**given["budget"], "total": options.total}
    for name in ("clients", "paired", "average", "bias"):
        if getattr(options, name) is not None:
            evaluation[name] = getattr(options, name)
    for name in ("epsilon", "mechanism", "accounting", "delta", "evaluations", "minimum"):
        if getattr(options, name) is not None:
            evaluation["privacy"] = {**evaluation.get("privacy", {}), name: getattr(options, name)}
    return Study.from_dict({**given, "evaluation": evaluation}, text=study.text, path=study.path)


def _progress(quiet: bool) -> Any:
    from fedhpo.tuning.progress import PlainLines

    def callbacks(method: str, seed: int) -> list[Any]:
        if quiet:
            return []
        note(f"{method}, seed {seed}")
        return [PlainLines()]

    return callbacks


def summary(comparison: Comparison) -> str:
    """A table of methods, and what may be said of it."""
    from fedhpo.pages.numbers import score
    from fedhpo.tuning.result import Table

    rows = []
    for row in comparison.summary():
        shown: dict[str, Any] = {"method": row["method"], "mean rank": f"{row['mean_rank']:.2f}"}
        for name, title in (("at_a_third", "at 1/3 of the budget"), ("at_full_budget", "at the full budget")):
            low, high = row[name]["quartiles"]
            shown[title] = f"{score(row[name]['median'])} ({score(low)} to {score(high)})"
        rows.append(shown)
    title = (
        f"true {comparison.metric} of the incumbent, median (quartiles) over {len(comparison.seeds)} seeds:"
    )
    return "\n".join([title, str(Table(rows)), *comparison.in_words()])
