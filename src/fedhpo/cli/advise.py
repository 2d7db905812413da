"""`fedhpo advise`: how noisy evaluation will be, and what to do about it."""

from __future__ import annotations

import argparse

from fedhpo.cli import OK
from fedhpo.cli.output import print_json


def run(options: argparse.Namespace) -> int:
    """Advise on a study, from a pilot or a table."""
    from fedhpo.cli.compare import adjusted
    from fedhpo.core.errors import InputError
    from fedhpo.research.advise import advise
    from fedhpo.research.advise.advice import WANTED
    from fedhpo.research.tables import load_table
    from fedhpo.study import Study

    table = load_table(options.table) if options.table else None
    if table is None and options.study is None:
        raise InputError("STUDY or --table: one of them must say what to advise on")
    study = Study.load(options.study) if options.study else table.study  # type: ignore[union-attr]
    advice = advise(adjusted(study, options), table=table, workers=options.workers)
    if options.json:
        print_json(advice.to_dict())
        return OK
    quality = advice.quality
    privacy = "" if advice.epsilon is None else f", epsilon {advice.epsilon:g} over {advice.evaluations}"
    private = f"mechanism {advice.mechanism}, accounting {advice.accounting}"
    rows = [
        ("seen in", advice.source),
        ("a score", f"from {advice.asked_clients} of {advice.validation_clients} clients{privacy}"),
        ("its standard error", f"{advice.standard_error:.4f} (between clients: {advice.spread:.4f})"),
        ("due to heterogeneity", f"{advice.heterogeneity:.0%} of the clients' variance"),
        (f"best of {advice.configs} first", f"with probability {quality.best_first:.2f}"),
        ("as good as the best", f"with probability {quality.near:.2f} (wanted: {WANTED:g})"),
        ("expected regret", f"{quality.regret:.4f}"),
        *(
            [
                (
                    "without tuning",
                    f"{untuned.score:.4f}; behind the best by {untuned.behind:.4f} ± {untuned.error:.4f}",
                )
            ]
            if (untuned := advice.untuned) is not None
            else []
        ),
        ("recommended", advice.method if advice.mechanism is None else f"{advice.method}, {private}"),
    ]
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {words}" for name, words in rows))
    print("\n".join(f"{i}. {line}" for i, line in enumerate(advice.practices, 1)))
    return OK
