"""How large FLoRA's experiments are, at each scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedhpo_papers.flora.paper import MAIN, PARTIES

LEARNERS = ("hgb", "svm", "mlp_sklearn")


@dataclass(frozen=True)
class Scale:
    """What is run. Figures that differ from the paper's are said on the page.

    Attributes:
        sets: of Tables 7 to 9
        tries: configs that a party tries (T)
        evaluations: of the centralised search for `best`
        fewer_evaluations: of this search, by set
        folds: of cross-validation, at the parties and with all rows in one place
        rows: at most so many of a set (stratified), by learner and set; a learner "" is any
        parties: numbers of parties of Table 11, by set; 3 are those of Table 7
        many_tries, many_folds: at the parties of Table 11
        imbalances: of Table 14, by learner
        images: training and test images of a party of Table 14
        side: their pixels in a row
        image_tries, image_evaluations: of Table 14; HGB, with ten times the cost, has the `slow_` ones
        trees: the sets of Table 15
        tree_tries, tree_folds: of Table 15
    """

    sets: tuple[str, ...] = tuple(MAIN["hgb"])
    tries: int = 100
    evaluations: int = 600
    fewer_evaluations: Mapping[str, int] = field(default_factory=dict)
    folds: int = 10
    rows: Mapping[tuple[str, str], int] = field(default_factory=dict)
    parties: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {name: tuple(rows) for name, rows in PARTIES.items()}
    )
    many_tries: int = 100
    many_folds: int = 10
    imbalances: tuple[tuple[str, str], ...] = (
        ("mlp_sklearn", "imb1"),
        ("mlp_sklearn", "imb2"),
        ("svm", "imb1"),
        ("hgb", "imb1"),
    )
    images: tuple[int, int] = (500, 2500)
    side: int = 28
    image_tries: int = 100
    image_evaluations: int = 600
    slow_image_tries: int = 100
    slow_image_evaluations: int = 600
    trees: tuple[str, ...] = ("oil_spill", "eeg_eye_state", "electricity")
    tree_tries: int = 500
    tree_folds: int = 10

    def limit(self, learner: str, name: str) -> int | None:
        """The most rows of a set for a learner; None for all."""
        return self.rows.get((learner, name), self.rows.get(("", name)))


SCALES: Mapping[str, Scale] = {
    "paper": Scale(),
    "default": Scale(
        evaluations=200,
        fewer_evaluations={"electricity": 100, "eeg_eye_state": 100},
        rows={
            ("", "electricity"): 15000,
            ("mlp_sklearn", "electricity"): 9000,
            ("mlp_sklearn", "eeg_eye_state"): 9000,
            ("svm", "eeg_eye_state"): 4000,
        },
        many_tries=30,
        many_folds=5,
        side=14,
        image_evaluations=200,
        slow_image_tries=30,
        slow_image_evaluations=40,
        tree_tries=100,
        tree_folds=5,
    ),
    "smoke": Scale(
        sets=("heart_statlog", "sonar"),
        tries=6,
        evaluations=8,
        folds=3,
        rows={("", "pollen"): 300},
        parties={"pollen": (3, 6)},
        many_tries=4,
        many_folds=2,
        imbalances=(("mlp_sklearn", "imb2"),),
        images=(60, 100),
        side=7,
        image_tries=4,
        image_evaluations=6,
        trees=("oil_spill",),
        tree_tries=4,
        tree_folds=2,
    ),
}
