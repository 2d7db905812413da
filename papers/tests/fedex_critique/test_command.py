"""The reproduction of FedEx's critique: its verdicts by made-up rows, and the whole at smoke scale."""

import json
import math

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.cli import main
from fedhpo.methods.fedex.ground_truth import GroundTruth
from fedhpo.methods.fedex.policy import FedExPolicy
from fedhpo.research.statistics import Paired, holm
from fedhpo_papers.fedex_critique.claims import (
    Claim,
    Rows,
    auto,
    best_plain,
    collapses,
    gammas,
    judge,
    pretrain,
    rankings,
    step_rules,
)
from fedhpo_papers.fedex_critique.command import SIZES, Cell, arms, cells, cut, measured, space
from fedhpo_papers.fedex_critique.settings import CANDIDATES, PLAIN, PRETRAIN, REMEDIES, plain
from fedhpo_papers.shared.tables import Mean
from fedhpo_papers.shared.verdicts import above, all_of, any_of


def rows(accuracies, **more):
    """16 seeds of each (setting, clients), spread by 0.01 around the accuracy."""
    found = []
    for (setting, clients), accuracy in accuracies.items():
        for seed, offset in enumerate(np.linspace(-0.01, 0.01, 16).tolist()):
            values = {name: value[setting, clients] + offset for name, value in more.items()}
            base = {"part": "plain", "setting": setting, "clients": clients, "seed": seed}
            found.append({**base, "accuracy": accuracy + offset, **values})
    return Rows(found)


def by_rule(few, many, gamma=0.0):
    rules = ("constant", "adaptive", "aggressive")
    return {(plain(r, gamma), 4): a for r, a in zip(rules, few, strict=True)} | {
        (plain(r, gamma), 30): a for r, a in zip(rules, many, strict=True)
    }


def verdict(claims):
    """Of one family, with Holm's correction."""
    p_values = holm([claim.p_value[0] for claim in claims])
    words = [claim.p_value[1] for claim in claims]
    return [word if p <= 0.05 else "undecided" for word, p in zip(words, p_values, strict=True)]


@pytest.mark.parametrize(
    ("few", "many", "expected"),
    [
        ((0.6, 0.5, 0.5), (0.5, 0.5, 0.6), "holds"),  # the paper's own: constant, then aggressive
        ((0.6, 0.5, 0.4), (0.6, 0.5, 0.4), "does not hold"),
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "undecided"),
    ],
)
def test_step_rules(few, many, expected):
    assert verdict([step_rules(rows(by_rule(few, many)))]) == [expected]


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ({"constant": 0.5, "adaptive": 0.0, "aggressive": 1.0}, "holds"),
        ({"constant": 1.0, "adaptive": 0.5, "aggressive": 0.0}, "does not hold"),
        ({}, "undecided"),
    ],
)
def test_gammas(best, expected):
    settings = {
        (plain(rule, gamma), 4): 0.6 if best.get(rule) == gamma else 0.5
        for rule in ("constant", "adaptive", "aggressive")
        for gamma in (0.0, 0.5, 1.0)
    }
    assert verdict([gammas(rows(settings))]) == [expected]


def noise(rng, seeds=10):
    """All settings equal but for chance."""
    metrics = ("accuracy", "kendall", "spearman", "average_precision", "used_kendall")
    return Rows(
        [
            {"setting": name, "clients": clients, "seed": seed, "collapse": None}
            | dict(zip(metrics, 0.3 + 0.1 * rng.normal(size=5), strict=True))
            for name in [*PLAIN, "adaptive pretrain", "auto"]
            for clients in (4, 30)
            for seed in range(seeds)
        ]
    )


def test_when_all_settings_are_equal_a_comparison_holds_no_more_often_than_its_level_says():
    """In 200 made-up experiments: at a level of 5%, two-sided, 10 of 400 verdicts are to be expected."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        made_up = noise(rng)
        chosen = best_plain(noise(rng, seeds=3))  # on other seeds
        claims = [gammas(made_up), *pretrain(made_up), *auto(made_up, chosen)]
        alone = [c for c in claims if "accuracy" not in c.name and "above 0.4" not in c.name]
        held += sum(c.p_value[0] <= 0.05 and c.p_value[1] == "holds" for c in alone[:1])
        held += any(word == "holds" for word in verdict(alone[1:]))
    assert held <= 22


def test_pretrain_gain_is_paired_over_seeds():
    """Seeds differ by more than the gain, which is the same in each: paired, it is certain."""
    found = pretrain(rows({(plain("adaptive", 0.0), 4): 0.5, ("adaptive pretrain", 4): 0.504}))
    assert verdict(found) == ["holds"]
    assert found[0].here == "+0.40 [+0.40, +0.40] (16) points"


def test_five_seeds_alone_decide_nothing():
    """All five differences of one sign: 2 of 32 patterns of signs are as far out, p = 0.0625."""
    gain = Claim("a", "", "", (Paired((0.1, 0.2, 0.3, 0.2, 0.1)),))
    assert gain.p_value == (0.0625, "holds")


def test_a_claim_of_several_parts():
    up, down = Paired((1.0, 1.1) * 10), Paired((-1.0, -1.1) * 10)
    open_ = Paired((1.0, -0.9) * 10)
    assert verdict([Claim("all", "", "", (up, up))]) == ["holds"]
    assert verdict([Claim("all", "", "", (up, open_))]) == ["undecided"]
    assert verdict([Claim("all", "", "", (up, down))]) == ["does not hold"]
    assert verdict([Claim("any", "", "", (up, down), any=True)]) == ["holds"]
    assert verdict([Claim("any", "", "", (down, down), any=True)]) == ["does not hold"]


def test_when_arms_settle():
    """Rounds 3 to 9 and 50 to 90 of 200, then never: infinitely late counts as the whole training."""

    def settled(fast, slow):
        found = {"aggressive": fast, "constant": slow}
        return Rows(
            [
                {"setting": plain(rule, 0.0), "clients": 4, "seed": seed, "collapse": value}
                for rule, values in found.items()
                for seed, value in enumerate(values)
            ]
        )

    quick = settled([3, 4, 5, 6, 7, 8, 9, 5], [50, 60, 70, 80, 90, 70, 60, 75])
    assert verdict(collapses(quick, rounds=200)) == ["holds", "holds"]
    never = settled([math.inf] * 7 + [190], [math.inf] * 7 + [190])
    assert verdict(collapses(never, rounds=200)) == ["does not hold", "does not hold"]
    assert collapses(never, rounds=200)[0].here.startswith("round 198.8 [")


def test_ranking_claims_of_the_paper_hold_for_its_own_figures():
    cases = by_rule((0.2, -0.3, 0.2), (0.2, -0.3, 0.3))
    precision = by_rule((0.2, 0.1, 0.2), (0.2, 0.1, 0.7))
    found = rankings(
        rows(cases, kendall=cases, spearman=cases, used_kendall=cases, average_precision=precision)
    )
    assert verdict(found) == ["holds"] * 4
    high = by_rule((0.6, 0.6, 0.6), (0.7, 0.7, 0.7))
    found = rankings(rows(high, kendall=high, spearman=high, used_kendall=high, average_precision=high))
    failed = "does not hold"
    assert verdict(found) == [failed, failed, failed, failed]


def test_auto_is_compared_with_what_was_chosen_on_other_seeds():
    settings = {(name, 4): 0.3 for name in PLAIN} | {("constant gamma 0", 4): 0.5, ("auto", 4): 0.5}
    better = {key: value + (0.2 if key[0] == "auto" else 0.0) for key, value in settings.items()}
    made_up = rows(settings, kendall=better, average_precision=settings)
    chosen = {what: {4: "constant gamma 0"} for what in ("kendall", "average_precision", "accuracy")}
    found = auto(made_up, chosen)
    # tau 0.7 against 0.5; AP as good, which is not more; accuracy as good, which is at most 0.01 less.
    assert verdict(found) == ["holds", "undecided", "holds", "holds"]
    assert all("(constant gamma 0)" in claim.here for claim in found[:3])
    assert best_plain(made_up)["accuracy"] == {4: "constant gamma 0"}


def test_a_family_whose_seeds_are_not_all_there_is_undecided():
    made_up = rows({(plain("adaptive", 0.0), 4): 0.5, ("adaptive pretrain", 4): 0.6})
    assert [v.verdict for v in judge(made_up, 40, {}, 16)] == ["holds"]
    assert [v.verdict for v in judge(made_up, 40, {}, 17)] == ["undecided"]


def test_verdicts_need_two_standard_errors():
    assert above(Mean.of([0.1, 0.2, 0.3]), 0.0) == "holds"
    assert above(Mean.of([-0.1, 0.2, 0.3]), 0.0) == "undecided"
    assert above(Mean.of([0.5]), 0.0) == "undecided"
    assert any_of(["does not hold", "holds"]) == "holds"
    assert any_of(["does not hold", "undecided"]) == "undecided"
    assert all_of([]) == "undecided"


def test_cells_of_the_scale_with_cnns():
    """Nine plain settings, one more baseline, five remedies and auto, at two sizes over five seeds."""
    usual = cells(SIZES["cnn"], ["plain", "pretrain", "remedies"])
    assert len(usual) == (9 + 1 + 6) * 2 * 5
    assert len({cell.name for cell in usual}) == len(usual)
    develop = cells(SIZES["cnn"], ["develop"])
    assert len(develop) == len(CANDIDATES) * 2 * 3
    assert {cell.seed for cell in develop}.isdisjoint(cell.seed for cell in usual)


def test_every_setting_is_one_of_fedex():
    for settings in (PLAIN, PRETRAIN, REMEDIES, CANDIDATES):
        for setting in settings.values():
            FedExPolicy(**setting)


def test_auto_is_what_its_development_found():
    assert FedExPolicy.auto() == FedExPolicy(**CANDIDATES["then, eliminate 0"])


def test_arms_are_the_same_for_all_seeds_and_others_for_development():
    scale = SIZES["cnn"]
    assert arms(scale, "plain") == arms(scale, "remedies")
    assert set(arms(scale, "plain").arms).isdisjoint(arms(scale, "develop").arms)
    assert len(set(arms(scale, "plain").arms)) == 27
    for arm in arms(scale, "plain").arms:
        space(scale).validate(space(scale).default().replace(client=arm))


def test_cut_keeps_clients_and_lets_the_rest_score():
    whole = fh.load("digits", clients=12)
    part = cut(whole, 3)
    assert part.train_clients.tolist() == [0, 1, 2]
    assert part.train.rows(1).tolist() == whole.train.rows(1).tolist()
    assert part.validation.rows(1).tolist() == whole.validation.rows(1).tolist()
    assert sorted(part.test.indices) == sorted(whole.test.indices)
    assert not set(part.train.indices) & {*part.validation.indices, *part.test.indices}
    assert cut(whole, 12) is whole


def test_a_row_by_hand():
    """Three arms; after round 1 the last has odds of e^5 against the others: 0.987; after round 2, e^6."""
    policy = {
        "rounds": [
            {"round": 0, "log_weights": [0.0, 0.0, 0.0], "drawn": []},
            {"round": 1, "log_weights": [-5.0, -5.0, 0.0], "drawn": [0, 2]},
            {"round": 2, "log_weights": [-7.0, -6.0, 0.0], "drawn": [2, 2]},
        ]
    }
    facts = {"policies": [policy], "best": {"test": {"accuracy": 0.4}}, "cost": {"rounds_before": 0}}
    truth = GroundTruth(({"lr": 1}, {"lr": 2}, {"lr": 3}), (0.1, 0.2, 0.3))
    row = measured(Cell("plain", 4, "x", 0), facts, truth)
    assert row["used"] == [1, 0, 3]
    assert row["collapse"] == 2
    assert row["kendall"] == row["spearman"] == pytest.approx(1.0)
    assert row["regret"] == 0
    assert row["curves"]["largest"][:2] == [0.3333, round(1 / (1 + 2 * math.exp(-5)), 4)]
    failed = measured(Cell("plain", 4, "x", 0), None, truth)
    assert failed["failed"]
    assert failed["accuracy"] == 0
    assert failed.keys() == row.keys()


def test_the_whole_at_smoke_scale_and_again_from_its_runs(tmp_path, capsys, monkeypatch):
    options = ["reproduce", "fedex-critique", "--scale", "smoke", "--runs", str(tmp_path / "runs")]
    options += ["--out", str(tmp_path / "out"), "--workers", "0", "--json", "--quiet"]
    assert main([*options, "--only", "pretrain,remedies"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["rows"]) == (1 + 6) * 2 * 2
    assert "auto, loss" not in {row["setting"] for row in first["rows"]}

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a finished cell was run again")

    monkeypatch.setattr("fedhpo_papers.fedex_critique.command._tune", never)
    assert main([*options, "--only", "pretrain"]) == 0  # the page keeps what other parts have found
    again = json.loads(capsys.readouterr().out)
    assert again["rows"] == first["rows"]
    page = (tmp_path / "out" / "fedex-critique-smoke.md").read_text(encoding="utf-8")
    assert "| landmarks 6 x 5 | 3 |" in page
    assert 10_000 < (tmp_path / "out" / "fedex-critique-smoke.html").stat().st_size < 1_000_000
    saved = json.loads((tmp_path / "out" / "fedex-critique-smoke.json").read_text(encoding="utf-8"))
    assert np.isfinite([row["accuracy"] for row in saved["rows"]]).all()


def test_all_verdicts_on_one_page(tmp_path):
    """Made-up rows for every setting: each claim gets its line and each figure its place."""
    from fedhpo_papers.fedex_critique.page import write

    scale = SIZES["cnn"]
    truth = GroundTruth(arms(scale, "plain").arms, tuple(np.linspace(0.2, 0.8, 27)))
    rng, found = np.random.default_rng(0), []
    for cell in cells(scale, ["plain", "pretrain", "remedies", "develop"]):
        past = [
            {"round": r, "log_weights": rng.normal(size=27).tolist(), "drawn": [int(rng.integers(27))]}
            for r in range(3)
        ]
        facts = {"policies": [{"rounds": past}], "best": {"test": {"accuracy": rng.random()}}}
        found.append(measured(cell, {**facts, "cost": {"rounds_before": 0}}, truth))
    truths = [{"arms": "plain", "clients": clients, "values": truth.values} for clients in (4, 30)]
    shown = write({"scale": "cnn", "setup": scale.words, "rows": found, "truth": truths}, scale, tmp_path)
    assert len(shown["verdicts"]) == 1 + 1 + 2 + 4 + 2 + 8
    for heading in ("Figure 1", "Figure 2", "Figures 3 to 5", "First baseline", "Remedies", "chosen from"):
        assert heading in shown["text"]
    figures = (tmp_path / "fedex-critique-cnn.html").read_text(encoding="utf-8")
    for heading in ("Figure 1", "Figure 2", "Figure 3", "Figure 4", "Figure 5", "Remedies"):
        assert f"<h2>{heading}" in figures


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["nothing"], "unknown reproduction 'nothing'; known: fedex-critique, fedex-femnist"),
        (["fedex-critique", "--scale", "big"], "unknown scale 'big'; known: cnn, default, paper, smoke"),
        (["fedex-critique", "--only", "plane"], "unknown part 'plane' (did you mean 'plain'?)"),
    ],
)
def test_bad_input_is_named(more, message, capsys):
    assert main(["reproduce", *more]) == 2
    assert message in capsys.readouterr().err
