"""Made-up rows in the place of the data sets that Flower's examples load from the hub.

Images have a bright patch whose place is their class; texts repeat a word of their class; tables are those of
scikit-learn. `install` puts them behind `datasets.load_dataset`: partitioners and transforms are the apps'.
"""

from __future__ import annotations

import itertools
import sys
from types import ModuleType
from typing import Any

import numpy as np

ROWS, HELD = 160, 40
#: A data set's name in the cache, which nothing here needs to find again.
_NUMBER = itertools.count(1)


def install() -> None:
    """Let the apps' data come from here."""
    import torch

    torch.set_num_threads(1)
    # The compiled half of torchvision belongs to another build of torch; transforms need none of it.
    sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
    import datasets

    datasets.fingerprint.Hasher.hash = classmethod(lambda cls, value: f"{next(_NUMBER):016x}")
    datasets.load_dataset = load_dataset
    datasets.load.load_dataset = load_dataset
    import flwr.common.typing

    flwr.common.typing.UserConfig = dict  # flwr 1.41 lacks it
    typing = ModuleType("flwr.client.typing")
    for name in ("ClientAppCallable", "Mod"):
        setattr(typing, name, Any)
    sys.modules.setdefault("flwr.client.typing", typing)


def load_dataset(path: str, name: Any = None, split: Any = None, **options: Any) -> Any:
    """Some rows of a data set of this name."""
    import datasets

    made = {}
    for seed, (which, count) in enumerate((("train", ROWS), ("test", HELD))):
        made[which] = datasets.Dataset.from_dict(*_columns(path, count, np.random.default_rng(seed)))
    found = datasets.DatasetDict(made)
    if split is None:
        return found
    return found["train" if split == "train" else "test"]


def _columns(path: str, count: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    import datasets

    if "cifar100" in path:
        table, _ = _images(count, rng, "img", 32, "RGB", 100)
        return {**table, "fine_label": table["label"]}, None
    if "cifar10" in path:
        return _images(count, rng, "img", 32, "RGB", 10)
    if "mnist" in path:
        return _images(count, rng, "image", 28, "L", 10)
    if "flowers" in path:
        return _images(count, rng, "image", 64, "RGB", 102)
    if "imdb" in path:
        labels = rng.integers(0, 2, count).tolist()
        return {"text": [("good " if one else "bad ") * 8 for one in labels], "label": labels}, None
    if "iris" in path:
        from sklearn.datasets import load_iris

        x, y = load_iris(return_X_y=True)
        rows = rng.permutation(len(y))[: min(count, len(y))]
        names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
        columns = {name: x[rows, place].tolist() for place, name in enumerate(names)}
        return {**columns, "species": y[rows].tolist()}, None
    if "higgs" in path:
        labels = rng.integers(0, 2, count)
        inputs = rng.normal(size=(count, 28)) + labels[:, None]
        return {"inputs": inputs.tolist(), "label": labels.astype(float).tolist()}, None
    if "adult" in path:
        return _adult(count, rng), None
    if "titanic" in path:
        return _titanic(count, rng), None
    texts = [f"word{number % 5} means {number % 5}" for number in range(count)]
    told = {"instruction": texts, "input": [""] * count, "output": texts, "response": texts}
    assert datasets is not None
    return {key: told[key] for key in ("instruction", "input", "output")}, None


def _images(
    count: int, rng: np.random.Generator, key: str, side: int, mode: str, classes: int
) -> tuple[dict[str, Any], Any]:
    import datasets
    from PIL import Image

    labels = rng.integers(0, classes, count).tolist()
    pictures = []
    for label in labels:
        array = rng.integers(0, 60, (side, side) if mode == "L" else (side, side, 3)).astype(np.uint8)
        row, column = divmod(label % 12, 4)
        step = side // 4
        array[row * step : (row + 1) * step, column * step : (column + 1) * step] = 255
        pictures.append(Image.fromarray(array))
    label = datasets.ClassLabel(num_classes=classes)
    return {key: pictures, "label": labels}, datasets.Features({key: datasets.Image(), "label": label})


def _titanic(count: int, rng: np.random.Generator) -> dict[str, Any]:
    numbers = ("Survived", "Pclass", "Age", "Siblings/Spouses Aboard", "Parents/Children Aboard", "Fare")
    return {
        **{name: rng.integers(0, 2, count).tolist() for name in numbers},
        "Name": ["Mr. A", "Mrs. B"] * (count // 2),
        "Sex": rng.choice(["male", "female"], count).tolist(),
    }


def _adult(count: int, rng: np.random.Generator) -> dict[str, Any]:
    age = rng.integers(18, 80, count)
    numbers = ("fnlwgt", "education.num", "capital.gain", "capital.loss", "hours.per.week")
    texts = (
        "workclass",
        "education",
        "marital.status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "native.country",
    )
    return {
        "age": age.tolist(),
        **{name: rng.integers(0, 100, count).tolist() for name in numbers},
        **{name: rng.choice(["a", "b", "c"], count).tolist() for name in texts},
        "income": np.where(age > 50, ">50K", "<=50K").tolist(),
    }
