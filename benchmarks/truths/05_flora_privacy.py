"""FLoRA, local privacy: 100 configs at epsilon 10 get usable noise; epsilon 1 is refused with what to do."""

from __future__ import annotations

import sys

import fedhpo as fh


def main() -> int:
    """What is wrong, in one line; 1 where anything is."""
    found = []
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    data = fh.load("digits", clients=3, partition={"kind": "iid"})
    with fh.LearnerFederation(data, "sklearn.naive_bayes:GaussianNB", workers=0) as federation:
        method = fh.FLoRA(configs=100, folds=2, diagnose=False, privacy=fh.LocalPrivacy(epsilon=10.0))
        result = fh.tune(federation, space, method, rounds=1, cohort=3)
    scale = result.facts["flora"]["privacy"]["scale"]
    if scale > 1:
        found.append(f"100 configs at epsilon 10: Laplace noise of scale {scale:g} on losses in [0, 1]")
    try:
        fh.FLoRA(configs=100, privacy=fh.LocalPrivacy(epsilon=1.0))
        found.append("epsilon 1 is accepted")
    except fh.InputError as error:
        if "epsilon = " not in str(error).partition("Use")[2]:
            found.append(f"what would do is not named: {error}")
    print("; ".join(found) or f"noise of scale {scale:g} at epsilon 10; epsilon 1 is refused")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
