"""The critique's tables: a page in Markdown; beside it the figures in HTML, and the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo_papers.fedex_critique.claims import NAMES, Rows, best_plain, judge
from fedhpo_papers.fedex_critique.figures import html
from fedhpo_papers.fedex_critique.many import ARMS, SETTING, CritiquePlan, about, flat
from fedhpo_papers.fedex_critique.settings import (
    CANDIDATES,
    GAMMAS,
    PLAIN,
    PRETRAIN,
    REMEDIES,
    RULES,
    plain,
)
from fedhpo_papers.shared import verdicts as _verdicts
from fedhpo_papers.shared.pages import VERDICTS, publish
from fedhpo_papers.shared.papers import Paper, outcome
from fedhpo_papers.shared.tables import markdown

if TYPE_CHECKING:
    from fedhpo_papers.fedex_critique.command import Scale

PAPER = Paper(
    "FedEx and its critique",
    "Nakka et al. (2023), Federated hyperparameter optimization through reward-based strategies: challenges "
    "and insights",
    "FedEx tunes the clients' hyperparameters while one model trains: each client draws one of 27 "
    "configs, the arms, and arms that do well are drawn more often. The paper asks whether that works. It "
    "varies FedEx's own settings (step rule, discount, first baseline, number of clients), trains every "
    "arm alone to know which ones are good, and finds that FedEx settles on an arm early and ranks arms "
    "hardly better than chance.",
    "Here the same settings were run on a smaller model, with 4 and with 30 clients, over several seeds, "
    "and besides them what the paper proposes as remedies and `FedEx.auto()`, whose settings were chosen "
    "on other arms and seeds.",
)
_MANY = (
    "Here a replicate is a world: a seed draws its clients, its 27 arms and the first model, and each arm is "
    "trained alone there. Models are small, so that many worlds can be run."
)
_JUDGED = (
    "What is compared, over how many worlds, stood in a file before the first run "
    "(`src/fedhpo/reproduce/fedex_critique/plan.toml`): the settings that the paper names, and for `auto()` "
    "the plain setting that was best for each figure on other seeds. Brackets are 95% intervals (Student's "
    "t), numbers of worlds in parentheses; below 15 a sign-flip test must agree. p-values have Holm's "
    "correction over all claims. A claim with several parts holds if all of them do. A claim whose worlds "
    "are not all there is undecided."
)
_METRICS = ("accuracy", "kendall", "spearman", "average_precision", "regret")


def write(found: dict[str, Any], scale: Scale, out: Path | None) -> dict[str, Any]:
    """Judge, and write page, figures and data if there is an `out`; the verdicts come back."""
    main = Rows([row for row in found["rows"] if row["part"] != "develop"])
    develop = Rows([row for row in found["rows"] if row["part"] == "develop"])
    verdicts = judge(main, scale.rounds, best_plain(develop), scale.seeds)
    page = text(found, scale, main, develop, verdicts)
    figures = html(found, main, verdicts, page)
    found = {**found, "verdicts": [verdict.to_dict() for verdict in verdicts]}
    return publish("fedex-critique", found, page, out, figures, verdicts)


def write_many(plan: CritiquePlan, rows: Sequence[Mapping[str, Any]], out: Path | None) -> dict[str, Any]:
    """The same of the default scale: small models, many worlds."""
    main = Rows(flat(rows))
    verdicts = judge(main, SETTING.rounds, plan.chosen, plan.replicates)
    alone = [value for row in rows for value in row["truth"]]
    parts = [
        f"# {PAPER.title}, small models and many worlds",
        f"{PAPER.source}. {PAPER.did}",
        f"{_MANY} {len(rows)} of {len(plan.wanted)} planned runs are done. {outcome(verdicts)}",
        VERDICTS,
        _verdicts.table(verdicts),
        "## How it was run",
        f"Made by `fedhpo reproduce fedex-critique`: {SETTING.data}, {SETTING.model}, hidden "
        f"{SETTING.shape['hidden']}, {SETTING.components} components, {SETTING.rounds} rounds, {ARMS} arms, "
        f"B = {' and '.join(map(str, plan.clients))}, at most {SETTING.rows} training rows a client. "
        + _JUDGED,
        "## All settings",
        _settings(main, [*PLAIN, *PRETRAIN, "auto"]),
        f"Accuracy of the arms alone: {min(alone):.3f} to {max(alone):.3f}." if alone else "",
        "The paper's figures with CNNs on CIFAR-10, over 5 seeds, are on "
        "[another page](fedex-critique-cnn.md).",
    ]
    page = "\n\n".join(part for part in parts if part) + "\n"
    kept = {"verdicts": [verdict.to_dict() for verdict in verdicts], "rows": list(rows)}
    return publish("fedex-critique", {"scale": "default", **about(plan), **kept}, page, out)


def text(
    found: dict[str, Any], scale: Scale, main: Rows, develop: Rows, verdicts: list[_verdicts.Verdict]
) -> str:
    """The page in Markdown; means over seeds with standard errors."""
    parts = [f"# {PAPER.title}", *PAPER.opening(verdicts)]
    if verdicts:
        parts += [VERDICTS, _verdicts.table(verdicts)]
    parts += [
        "## How it was run",
        f"Made by `fedhpo reproduce fedex-critique --scale {found['scale']}`: {found['setup']}. Means "
        "over seeds ± standard errors. Claims are judged seed against seed, by Student's t, with which a "
        "sign-flip test must agree below 15 seeds, and with Holm's correction over all claims: with 5 "
        "seeds that test leaves every p-value above 0.06, and nothing is decided. `auto()` is compared "
        "with the plain setting that was best where it was chosen, on other arms and seeds.",
    ]
    if main.has(plain("constant", 0.0)):
        parts += [
            "## Figure 1: test accuracy by step rule and number of clients",
            _by(main, "accuracy", [plain(rule, 0.0) for rule in RULES]),
            f"## Figure 2: test accuracy by discount, B = {main.clients[0]}",
            markdown(
                ["step rule", *(f"gamma {gamma:g}" for gamma in GAMMAS)],
                [
                    [rule, *(main.mean("accuracy", plain(rule, g), main.clients[0]) for g in GAMMAS)]
                    for rule in RULES
                ],
            ),
            "## Figures 3 to 5: the final policy against training each arm alone",
            _settings(main, [plain(rule, 0.0) for rule in RULES]),
            _truths(found),
        ]
    if main.has("adaptive pretrain"):
        parts += ["## First baseline", _settings(main, [plain("adaptive", 0.0), *PRETRAIN])]
    if main.has("auto"):
        parts += ["## Remedies, and all plain settings", _settings(main, [*REMEDIES, *PRETRAIN, *PLAIN])]
    if develop.has("first"):
        parts += [
            "## What `auto()` was chosen from",
            "On other arms and other seeds than above. The best of these, `then, eliminate 0`, is `auto()`.",
            _settings(develop, list(CANDIDATES)),
        ]
    return "\n\n".join(parts) + "\n"


def _by(rows: Rows, what: str, settings: list[str]) -> str:
    table = [[name, *(rows.mean(what, name, clients) for clients in rows.clients)] for name in settings]
    return markdown(["setting", *(f"B = {clients}" for clients in rows.clients)], table)


def _settings(rows: Rows, settings: list[str]) -> str:
    """Every metric of every setting."""
    head = ["setting", "B", "accuracy", *NAMES.values(), "regret", "rounds before"]
    table = [
        [
            name,
            clients,
            *(rows.mean(what, name, clients) for what in _METRICS),
            f"{max(rows.values('rounds_before', name, clients).values()):.0f}",
        ]
        for clients in rows.clients
        for name in settings
        if rows.values("accuracy", name, clients)
    ]
    return markdown(head, table)


def _truths(found: dict[str, Any]) -> str:
    lines = [
        f"B = {one['clients']}: {min(one['values']):.3f} to {max(one['values']):.3f}"
        for one in found["truth"]
        if one["arms"] == "plain"
    ]
    return f"Accuracy of the arms alone: {'; '.join(lines)} (paper: 0.17 to 0.81)."
