"""The card of a tuned model: what it is, its data, its scores by party, privacy spent, how to use it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.version import VERSION
from fedhpo.pages.numbers import number, whole
from fedhpo.pages.phrasing import metric_in_words, rounds_of
from fedhpo.protocol.objective import scored_as
from fedhpo.tuning.model_file import ESTIMATOR, kept_facts

if TYPE_CHECKING:
    from fedhpo.tuning.result import Result

CARD = "MODEL_CARD.md"
#: Parties named, and features and hyperparameters listed, at most.
_MOST = 50
_USE = {
    "trees": "`xgboost.Booster(model_file='model.ubj')` reads it without fedhpo.",
    "torch": "`safetensors.torch.load_file('model.safetensors')` reads its state without fedhpo.",
    "estimator": f"`skops.io.load('{ESTIMATOR}', trusted=...)` reads it without fedhpo, and names its types.",
}


def write_card(result: Result, about: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    """Write the card beside the model that the run keeps; `scores` are those of the model, by client."""
    if result.run is None or (kept := kept_facts(result.run)) is None:
        return
    (result.run / CARD).write_text(card(result, kept, about, scores), encoding="utf-8")


def card(result: Result, kept: Mapping[str, Any], about: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    run = result.run or Path("run")
    config = result.best_config.flat()
    parts = [
        f"# Model card: {run.resolve().name}",
        _what(result, kept, about),
        "## Data",
        _data(kept, about),
        "## Scores",
        _scores(result),
        _by_party(result, scores.get("by_client")),
        "## Hyperparameters",
        _table(["hyperparameter", "value"], [[name, number(value)] for name, value in config.items()]),
        "## Privacy",
        _privacy(result.facts.get("privacy")),
        "## Use",
        _use(kept),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _what(result: Result, kept: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    kind = kept.get("zoo") or {}
    model = kind.get("name") or about.get("learner") or kept.get("class", "XGBoost's trees")
    clients = f"{whole(about['clients'])} clients" if about.get("clients") else "clients"
    searched, own = rounds_of(result.facts["cost"])
    rounds = f"{whole(searched + own)} rounds over {whole(len(result.facts['trials']))} trials"
    lines = [
        f"`{model}`, trained by federated learning at {clients} with fedhpo {VERSION}. "
        f"Its hyperparameters were chosen by `{result.facts['method']['name']}` in {rounds}, "
        f"seed {result.facts['seed']}.",
        f"Verdict: {result.verdict}.",
    ]
    return "\n\n".join(lines)


def _data(kept: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    rows = [("data", about.get("data")), ("clients", about.get("clients"))]
    if encoding := kept.get("encoding"):
        from fedhpo.data.encoding import Encoding

        found = Encoding.from_dict(encoding)
        rows += [
            ("label", found.label),
            ("task", found.task),
            ("classes", ", ".join(map(str, found.labels[:_MOST])) if found.labels else None),
            ("features", f"{len(found.features)}: {', '.join(found.features[:_MOST])}"),
        ]
    rows += [(name.replace("_", " "), about.get(name)) for name in ("missing_values", "scaling", "training")]
    return _table(["", ""], [[name, str(value)] for name, value in rows if value not in (None, "")])


def _scores(result: Result) -> str:
    objective = result.facts["objective"]
    lines = []
    if math.isfinite(result.best_score):
        lines.append(f"- {scored_as(objective)} {metric_in_words(objective)}: {number(result.best_score)}")
    if result.test is not None and result.test.value is not None and math.isfinite(result.test.value):
        lines.append(
            f"- test {metric_in_words(objective)}: {number(result.test.value)}, on rows that chose nothing"
        )
    return "\n".join(lines) or "Scores are kept private."


def _by_party(result: Result, found: Mapping[str, Any] | None) -> str:
    if not found:
        return ""
    rows = [
        [str(result.client_name(client)), number(value), whole(size)]
        for client, value, size in zip(found["client"], found["value"], found["size"], strict=True)
    ]
    rows.sort(key=lambda row: row[0])
    more = f"\n\nand {whole(len(rows) - _MOST)} more clients: see result.json" if len(rows) > _MOST else ""
    metric = result.facts["objective"]["metric"]
    return _table(["client", f"validation {metric}", "validation rows"], rows[:_MOST]) + more


def _privacy(found: Mapping[str, Any] | None) -> str:
    if not found:
        return (
            "No differential privacy: scores, weights and, of tables, texts and sums of columns are as "
            "clients have them."
        )
    return (
        f"Epsilon {number(found['epsilon_spent'])} of {number(found['epsilon'])} was spent "
        f"({found['mechanism']}); it covers {found['covers']}."
    )


def _use(kept: Mapping[str, Any]) -> str:
    lines = []
    if "encoding" in kept:
        lines.append(
            "`fedhpo predict THIS_DIRECTORY new.csv` needs this directory and nothing else: the encoding of "
            "columns, the values for missing numbers and the scales are in `model.json`."
        )
    if kept["kind"] == "torch" and not kept.get("zoo"):
        lines.append(
            f"The model is of the class `{kept.get('class')}`: give what builds it, "
            "`fedhpo predict --model module:Name` or `fedhpo.load_run(path, model=Name)`."
        )
    else:
        lines.append("In Python: `fedhpo.load_run(path).model`, and `.predict(rows)` where data had columns.")
    lines.append(
        f"{_USE[kept['kind']]} Nothing is unpickled; even so, load files from people whom you trust."
    )
    lines.append(
        "It was tuned for the clients above. What it is worth for others, and whether it treats groups of "
        "people alike, was not looked at."
    )
    return "\n\n".join(lines)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; a bar inside a cell does not end it."""
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
