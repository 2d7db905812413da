"""The page of FedEx under halving over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.research.statistics import Plan
from fedhpo_papers.fedex_femnist.many import SETTING, about
from fedhpo_papers.shared.pages import VERDICTS, publish
from fedhpo_papers.shared.planned import Row
from fedhpo_papers.shared.tables import markdown

DID = (
    "Khodak et al. (2021), Federated hyperparameter tuning: challenges, baselines, and connections to "
    "weight-sharing. FedEx tunes the clients' hyperparameters while a model trains; successive halving "
    "around it tunes the server's. The paper reports it ahead of plain halving on several benchmarks."
)
_HOW = (
    "What is compared, over how many seeds and within which margin stood in a file before the first run "
    "(`src/fedhpo/reproduce/fedex_femnist/plan.toml`). With the same seed all methods have the same first "
    "configs, models and cohorts. Brackets are 95% intervals (Student's t), numbers of pairs in parentheses; "
    "below 15 a sign-flip test must agree. p-values have Holm's correction. A claim whose runs are not all "
    "there is undecided."
)


def write_many(plan: Plan, rows: Sequence[Row], out: str | Path | None) -> dict[str, Any]:
    """Judge, and write page and data."""

    def values(method: str, set: str) -> Mapping[int, float]:
        return {row["seed"]: row["accuracy"] for row in rows if (row["method"], row["set"]) == (method, set)}

    judged = plan.judge(values)
    wanted = sum(len(plan.seeds(method, set)) for method in plan.methods for set in plan.sets)
    parts = [
        "# FedEx under successive halving on FEMNIST, small models",
        DID,
        f"Here a small model is trained over several seeds. {len(rows)} of {wanted} planned runs are done.",
        VERDICTS,
        markdown(
            ["claim", "mean difference", "median", "p (Holm)", "verdict"],
            [
                [
                    name,
                    str(one.paired),
                    f"{one.paired.median:+.2f}",
                    f"{one.p_value:.3g}",
                    f"**{one.verdict}**",
                ]
                for name, one in judged.items()
                if one.paired.count
            ],
        ),
        "## How it was run",
        f"Made by `fedhpo reproduce fedex-femnist`: {SETTING.words}, {SETTING.trials} trials. {_HOW}",
        "## By method",
        markdown(
            ["method", "runs", "mean accuracy", "median", "the user's own config wins"],
            [_summary(method, [row for row in rows if row["method"] == method]) for method in plan.methods],
        ),
        "Trial 0 has the user's own config, here the middle of the space: where it wins, the search found "
        "nothing better. One search at the published size, with a CNN, is on [another page]"
        "(fedex-femnist-cnn.md).",
    ]
    verdicts = {name: {"verdict": one.verdict, "p_value": one.p_value} for name, one in judged.items()}
    found = {"scale": "default", **about(plan), "verdicts": verdicts, "rows": list(rows)}
    return publish("fedex-femnist", found, "\n\n".join(parts) + "\n", out)


def _summary(method: str, rows: Sequence[Row]) -> list[Any]:
    if not rows:
        return [method, 0, "–", "–", "–"]
    accuracy = [row["accuracy"] for row in rows]
    wins = sum(row["own"] for row in rows)
    return [
        method,
        len(rows),
        f"{np.mean(accuracy):.2f}",
        f"{np.median(accuracy):.2f}",
        f"{wins} of {len(rows)}",
    ]
