"""FLoRA: what the parties sent, and what their surface recommended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedhpo.pages.numbers import number, score
from fedhpo.protocol.sections import section, table


def party_sections(found: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The parties, the recommendation, and what is known of both; nothing for other methods."""
    if found is None:
        return []
    rows = [
        [
            str(party["party"]),
            party["size"] or None,
            party["pairs"],
            party["best_loss"],
            party["reason"],
        ]
        for party in found["parties"]
    ]
    parties = table(["party", "rows", "pairs sent", "lowest loss", "left out because"], rows)
    facts = table(["local searches", ""], [[name, str(value)] for name, value in _facts(found)])
    return [section("Local searches", facts, parties, *_notes(found))]


def _facts(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    known = found.get("diagnostics") or {}
    rows = [
        ("surface", found.get("surface")),
        ("a party's loss", found.get("loss")),
        ("predicted loss", _predicted(found, "predicted_loss")),
        ("predicted for your config", _predicted(found, "predicted_default_loss")),
        ("training", found["training"]),
        ("gamma (heterogeneity)", number(known["gamma"]) if known.get("gamma") is not None else None),
        ("estimated optimality gap", _gap(known)),
        ("distance between parties' rows", _distances(known.get("wasserstein"))),
        ("recommended surface", known.get("recommended")),
    ]
    private = found.get("privacy")
    if private:
        rows += [
            ("epsilon", f"{number(private['epsilon'])} a {private['unit']}"),
            ("chosen privately", f"{private['chosen']} of {private['of']}" if "of" in private else None),
            ("noise on each loss", _noise(private)),
            ("sensitivity", f"{number(private['sensitivity'])} ({private['sensitivity_is']})"),
        ]
    return [(name, value) for name, value in rows if value is not None]


def _predicted(found: Mapping[str, Any], name: str) -> str | None:
    return None if found.get(name) is None else score(found[name])


def _noise(private: Mapping[str, Any]) -> str:
    scale = private["scale"]
    return f"{private['noise']}, scale {number(scale)}" if scale else str(private["noise"])


def _gap(known: Mapping[str, Any]) -> str | None:
    """What parties give up for a common config, beside the largest error of their models."""
    if known.get("optimality_gap") is None:
        return None
    delta = max(party["delta"] for party in known["parties"])
    return f"{score(known['optimality_gap'])}; models err by at most {score(delta)} (delta)"


def _distances(found: Mapping[str, Any] | None) -> str | None:
    if found is None:
        return None
    own = sorted(distance for i, row in enumerate(found["distances"]) for distance in row[:i])
    return f"{number(own[0])} to {number(own[-1])}; by chance {number(found['chance'])}"


def _notes(found: Mapping[str, Any]) -> list[str]:
    known = found.get("diagnostics") or {}
    words = [f"{known['why']}." if known.get("why") else ""]
    if found.get("privacy"):
        words += [
            f"Epsilon covers {found['privacy']['covers']}.",
            "A person whose rows lie at two parties pays at both.",
        ]
    if known:
        words.append("surface.html in the run's directory draws the surface.")
    told = " ".join(word for word in words if word)
    return [told] if told else []
