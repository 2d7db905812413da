"""What people type into the search of the documentation finds the page that answers it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))
pages = __import__("pages")
sys.path.pop(0)

#: The term, and a page that must be among those that have it.
TERMS = {
    "lora": "finetuning.md",
    "huggingface": "huggingface.md",
    "hugging face": "huggingface.md",
    "transformers": "huggingface.md",
    "train_loss": "flower-apps.md",
    "n_trials": "from-optuna.md",
    "optuna": "from-optuna.md",
    "pruner": "from-optuna.md",
    "study.optimize": "from-optuna.md",
    "sklearn": "scikit-learn.md",
    "gridsearchcv": "scikit-learn.md",
    "cross validation": "glossary.md",
    "early stopping": "glossary.md",
    "bayesian optimisation": "glossary.md",
    "bayesian optimization": "glossary.md",
    "differential privacy": "evaluation.md",
    "epsilon": "evaluation.md",
    "gpu": "start.md",
    "cuda": "start.md",
    "torchvision": "data.md",
    "flwr_datasets": "data.md",
    "fedavg": "concepts.md",
    "non-iid": "glossary.md",
    "dirichlet": "glossary.md",
    "feature importance": "glossary.md",
    "parallel coordinates": "gallery.md",
    "learning rate": "glossary.md",
    "wandb": "trackers.md",
    "resume": "concepts.md",
    "random search": "methods/random.md",
}


@pytest.fixture(scope="module")
def texts():
    """The words of each page, as the site's search reads them: without case and line ends."""
    found = {}
    for path, place in pages.sources().items():
        if path.suffix == ".md":
            found[place.as_posix()] = re.sub(r"\s+", " ", path.read_text(encoding="utf-8")).lower()
    return found


@pytest.mark.parametrize("term", sorted(TERMS))
def test_a_term_finds_its_page(term, texts):
    word = re.compile(rf"(?<![a-z]){re.escape(term)}")
    found = {place for place, text in texts.items() if word.search(text)}
    assert TERMS[term] in found
