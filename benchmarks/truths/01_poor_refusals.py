"""Cohort is min(10, clients); personalised learners, unknown scorings and empty spaces are answered early."""

from __future__ import annotations

import sys

import fedhpo as fh

DATA = {"name": "synthetic", "clients": 3, "samples": 40, "dimension": 4, "classes": 2}
TORCH = {
    "data": DATA,
    "model": {"name": "linear"},
    "space": {"client": {"lr": {"low": 0.01, "high": 1.0}}},
    "budget": {"rounds": 1, "total": 2},
}
SVM = {"data": DATA, "model": {"name": "svm"}, "space": {}, "budget": {"rounds": 1, "total": 2}}


def message(tables: dict) -> str:
    """Why a study is refused; empty if it runs."""
    try:
        fh.Study.from_dict(tables).tune(workers=0)
    except fh.InputError as error:
        return str(error)
    return ""


def empty_space() -> bool:
    """Whether a learner's own space is taken in Python too."""
    data = fh.load("synthetic", clients=3, samples=40, dimension=4, classes=2)
    try:
        with fh.LearnerFederation(data, "svm", workers=0) as federation:
            result = fh.tune(federation, fh.Space(), "random", rounds=1, total=2, cohort=3)
    except fh.InputError:
        return False
    return bool(result.best_config.client)


def main() -> int:
    """All four."""
    auroc = message({**TORCH, "method": {"name": "fts"}, "objective": {"metric": "auroc"}})
    personal = message({**SVM, "method": {"name": "random"}, "evaluation": {"personalised": True}})
    seen = {
        "three parties without cohort": message({**TORCH, "method": {"name": "random"}}) == "",
        "auroc in the user's words": "'auroc'" in auroc and "roc_auc" not in auroc,
        "personalised learner refused by its key": "evaluation.personalised" in personal,
        "empty space of a learner in Python": empty_space(),
    }
    print(", ".join(f"{name}: {found}" for name, found in seen.items()))
    return int(not all(seen.values()))


if __name__ == "__main__":
    sys.exit(main())
