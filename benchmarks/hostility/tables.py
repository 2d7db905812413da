"""What came out, as Markdown."""

from __future__ import annotations

import statistics

from fedhpo.testing.attacks import majority_chance
from hostility import cost
from hostility.cells import ATTACKS, NONE, RULES, SEEDS, SHARES, SPLITS, Log
from hostility.inside import Inside
from hostility.selection import LIES, OVER, Choices


def accuracy(log: Log, split: str, rule: str, attack: str, share: float) -> list[float]:
    """The accuracy with each seed that was done; of the strengths, the one that did most harm."""
    worst: dict[int, float] = {}
    for cell, found in log.found.items():
        if (cell.split, cell.rule, cell.attack, cell.share) == (split, rule, attack, share):
            worst[cell.seed] = min(found, worst.get(cell.seed, 1.0))
    return [worst[seed] for seed in sorted(worst) if seed in SEEDS]


def chosen(log: Choices, split: str, over: str, lie: str, share: float) -> list[float]:
    """The same of selection."""
    worst: dict[int, float] = {}
    for choice, found in log.found.items():
        if (choice.split, choice.over, choice.lie, choice.share) == (split, over, lie, share):
            worst[choice.seed] = min(found, worst.get(choice.seed, 1.0))
    return [worst[seed] for seed in sorted(worst) if seed in SEEDS]


def tables(log: Log, choices: Choices, inside: Inside, cohort: int) -> str:
    """All tables, one after the other."""
    lines: list[str] = []
    for split in SPLITS:
        rules = [rule for rule in RULES if accuracy(log, split, rule, NONE, 0.0)]
        if not rules:
            continue
        lines += [
            f"\nTraining, {split}: test accuracy in points, mean over seeds (how many)\n",
            "| attack | share | " + " | ".join(rules) + " |",
            "| --- | --- |" + " --- |" * len(rules),
        ]
        for attack, share in [(NONE, 0.0), *((attack, share) for attack in ATTACKS for share in SHARES)]:
            row = [_cell(accuracy(log, split, rule, attack, share)) for rule in rules]
            if any(row):
                lines.append(f"| {attack} | {share:.0%} | " + " | ".join(row) + " |")
    for split in SPLITS:
        overs = [over for over in OVER if chosen(choices, split, over, "none", 0.0)]
        if not overs:
            continue
        lines += [
            f"\nSelection by successive halving, {split}: test accuracy of the chosen model, in points\n",
            "| lie | share | " + " | ".join(f"over = {OVER[over].over}" for over in overs) + " |",
            "| --- | --- |" + " --- |" * len(overs),
        ]
        for lie, share in [("none", 0.0), *((lie, share) for lie in LIES for share in SHARES)]:
            row = [_cell(chosen(choices, split, over, lie, share)) for over in overs]
            if any(row):
                lines.append(f"| {lie} | {share:.0%} | " + " | ".join(row) + " |")
    lines += inside.table() + cost.table()
    lines += [
        "\nThe chance that at least half of a cohort is hostile, for cohorts drawn at random\n",
        "| clients, cohort | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |",
        "| --- |" + " --- |" * len(SHARES),
    ]
    for clients, drawn in ((20, cohort), (100, 5), (100, 10), (100, 20), (1000, 10), (1000, 50)):
        row = [f"{majority_chance(clients, share, drawn):.3g}" for share in SHARES]
        lines.append(f"| {clients}, {drawn} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _cell(found: list[float]) -> str:
    return f"{100 * statistics.mean(found):.1f} ({len(found)})" if found else ""
