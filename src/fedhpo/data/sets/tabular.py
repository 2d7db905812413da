"""FLoRA's seven tables of two classes each: numeric features, the last column is the label."""

from __future__ import annotations

import csv
import gzip

import numpy as np

from fedhpo.data.partition import IID
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request, check_choice

TABLES = {
    "eeg_eye_state": "eye open or closed from 14 EEG channels, 14,980 rows",
    "electricity": "price up or down from 8 market features, 45,312 rows",
    "heart_statlog": "heart disease from 13 findings, 270 rows",
    "oil_spill": "oil spill in radar images, 49 features, 937 rows, 41 positive",
    "pollen": "synthetic pollen grains, 5 features, 3,848 rows, labels hardly predictable",
    "sonar": "mine or rock from 60 sonar bands, 208 rows",
    "pc3": "software defects from 37 code measures, 1,563 rows, 160 positive",
}


def table(name: str, request: Request, *, scale: str | None = "standard") -> Samples:
    """One table; by default its rows are dealt to 3 clients, class by class (stratified).

    `scale` is "standard", "minmax" or None, and sets mean and std from the training rows; `x` itself stays
    as it is in the file, for learners that need no scaling.
    """
    check_choice("scale", scale, ("standard", "minmax", None))
    file = request.file(f"tabular/{name}.csv.gz")
    with gzip.open(file, "rt", newline="") as lines:
        reader = csv.reader(lines)
        next(reader)
        rows = np.array(list(reader), dtype=np.float64)
    return Samples(
        x=np.ascontiguousarray(rows[:, :-1], dtype=np.float32),
        y=rows[:, -1].astype(np.int64),
        task="classification",
        classes=2,
        scale=scale,
        partition=IID(request.clients or 3, stratified=True),
    )
