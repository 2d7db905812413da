"""`fedhpo.verify`: is a candidate better than the base? Paired trainings, until that is decided."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.streams import derive
from fedhpo.referee.campaign import Campaign
from fedhpo.referee.comparison import Comparison, check_base
from fedhpo.referee.evidence import mean_and_interval
from fedhpo.referee.judges import deal, for_the_end
from fedhpo.referee.rules import Rules
from fedhpo.referee.sides.apart import opened
from fedhpo.referee.sides.opened import Options, check_options
from fedhpo.referee.sides.ran import asked_clients
from fedhpo.referee.sides.side import Side
from fedhpo.referee.verdict import Verification
from fedhpo.study.unchanged import Checked


def verify(
    base: Any,
    *candidates: Any,
    campaign: str | Path | None = None,
    alpha: float | None = None,
    proposals: int | None = None,
    least: float | None = None,
    pairs: int | None = None,
    after: int | None = None,
    seed: int | None = None,
    equal: Literal["bytes"] | None = None,
    control: int | Literal["spent"] | None = None,
    tuned: Sequence[str | Path] = (),
    final: bool = False,
    report: str | Path | None = None,
    metric: str | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    clients: int | None = None,
    rounds: int | None = None,
    cohort: int | None = None,
    setup: str | None = None,
    source: Literal["clients", "server", "training"] | None = None,
    trained: bool = False,
    workers: int | None = None,
    say: Callable[[str], Any] = lambda text: None,
) -> Verification:
    """Judge candidates against a base by paired trainings, with one error rate over a whole campaign.

    Each side is a study file, a run's directory, a Flower app, an NVFlare job (its arguments may follow:
    "job --epochs 2"), `package.module:function`, a `Study` or a function; see docs/verify.md. A pair trains
    both with the same seed and cohorts.

    Parameters
    ----------
    base, candidates
        The sides. A candidate that is kept is the base of the next one.
    campaign
        A file that remembers every comparison; called again, it goes on. Without it nothing is kept, and the
        campaign is this call alone.
    alpha, proposals, least, pairs, after
        See `fedhpo.referee.rules.Rules`. A campaign that was begun keeps its alpha, proposals and least.
    equal
        "bytes" refuses a candidate that moves more than 1.02 times the base's bytes.
    control
        A scalar control: the base is tuned for so many rounds, and the candidate must beat that too. "spent"
        takes the rounds that the candidate's own run spent.
    tuned
        Runs on which sides were tuned: their clients do not judge.
    final
        After the candidates judge the last base, once, at clients that no comparison saw: the campaign ends.
    report
        Where to write the campaign's page.
    metric, direction, clients, rounds, cohort, setup, source, trained
        What apps, jobs and functions do not say themselves; `source` is where the score of an app or a job
        comes from, `trained` says that a job's replies score the model that a site trained, not the one
        that it received.
    say
        Called with a line of text before something takes time.

    Examples
    --------
    >>> import fedhpo as fh
    >>> def weak(seed):
    ...     return {"score": 0.80 + seed % 100 / 1e4, "rounds": 5, "cohort": 5}
    >>> def strong(seed):
    ...     return {"score": 0.85 + seed % 77 / 1e4, "rounds": 5, "cohort": 5}
    >>> found = fh.verify(weak, strong)
    >>> found.verdicts[0].verdict, found.code, found.verdicts[0].facts["pairs"]
    ('keep', 0, 6)
    """
    options = Options(metric, direction, clients, rounds, cohort, setup, workers, source, trained)
    _check(candidates, equal, control, final, direction)
    check_options((one.source if isinstance(one, Checked) else one for one in (base, *candidates)), options)
    given = {"alpha": alpha, "proposals": proposals, "least": least, "pairs": pairs, "after": after}
    with Campaign(campaign) as held, contextlib.ExitStack() as stack:
        if held.closed is not None:
            raise InputError(f"campaign {campaign}: has ended, its last base was judged; begin another one")
        rules = _rules(held, given)
        side: Side = stack.enter_context(contextlib.closing(opened(base, options)))
        asked = sorted({one for path in tuned for one in asked_clients(Path(path))})
        _begin(held, rules, side, asked, seed)
        verdicts = []
        for candidate in candidates:
            with contextlib.ExitStack() as its:
                other = its.enter_context(contextlib.closing(opened(candidate, options)))
                verdicts.append(Comparison(held, rules, side, other, asked, equal, control, say).verdict())
                if verdicts[-1].kept:
                    stack.push(its.pop_all())
                    side = other
        if final:
            check_base(held, side.terms)
        last = _final(held, rules, side, asked, say) if final else None
        if report is not None:
            from fedhpo.referee.page import write_page

            write_page(held.head, held.lines, report)
        return Verification(verdicts, held.base, held.path, last)


def _check(
    candidates: Sequence[Any],
    equal: str | None,
    control: int | str | None,
    final: bool,
    direction: str | None,
) -> None:
    if not candidates and not final:
        raise InputError("candidates: name at least one, or ask for the final judgement of the base")
    if equal not in (None, "bytes"):
        raise InputError(f"equal = {equal!r}: must be 'bytes', or left out")
    if direction not in (None, "maximize", "minimize"):
        raise InputError(f"direction = {direction!r}: must be 'maximize' or 'minimize'")
    whole = isinstance(control, int) and not isinstance(control, bool) and control >= 1
    if control is not None and control != "spent" and not whole:
        raise InputError(f"control = {control!r}: must be a number of rounds, or 'spent'")


def _rules(campaign: Campaign, given: dict[str, Any]) -> Rules:
    """What was given, else what the campaign was begun with, else the defaults."""
    kept = campaign.head.get("rules", {})
    known = {one.name for one in fields(Rules)}
    return Rules(
        **({k: v for k, v in kept.items() if k in known} | {k: v for k, v in given.items() if v is not None})
    )


def _begin(campaign: Campaign, rules: Rules, base: Side, asked: Sequence[int], seed: int | None) -> None:
    """Begin the campaign with this base, or check that it was begun with the same settings."""
    terms = base.terms
    own = {"name": terms.name, "digest": terms.identity, "code": terms.code, "data": terms.data}
    if not campaign.head:
        judges, last = None, None
        if terms.clients is not None:
            judges, last = deal(terms.clients, {*(terms.asked or ()), *asked}, seed or 0)
        facts = {
            "base": own,
            "seed": seed or 0,
            "metric": terms.metric or "score",
            "maximise": terms.maximise is not False,
            "judges": judges,
            "kept_back": last,
        }
        campaign.begin(rules, facts)
        return
    campaign.begin(rules, {})
    if seed is not None and seed != campaign.head["seed"]:
        raise InputError(f"seed = {seed}: the campaign was begun with {campaign.head['seed']}: leave it out")


def _final(
    campaign: Campaign, rules: Rules, base: Side, tuned: Sequence[int], say: Callable[[str], Any]
) -> dict[str, Any]:
    """Judge the last base once, with fresh seeds, at clients that no comparison saw."""
    seed = campaign.head["seed"]
    last, where = for_the_end(campaign.head["kept_back"], {*tuned, *(base.terms.asked or ())})
    say(f"final: {rules.after} trainings of {base.terms.name}; {where}")
    found = []
    for number in range(rules.after):
        one = base.train(derive(seed, "final", number), last or campaign.head["judges"])
        if one.score is None:
            raise FedhpoError(f"{base.terms.name} cannot be trained: {one.failed}")
        found.append(one)
    mean, low, high = mean_and_interval([one.score for one in found if one.score is not None])
    tails = [one.tail for one in found if one.tail is not None]
    facts = {
        "name": base.terms.name,
        "digest": base.terms.identity,
        "metric": campaign.head["metric"],
        "mean": mean,
        "interval": [low, high],
        "tail": sum(tails) / len(tails) if tails else None,
        "trainings": len(found),
        "where": where,
    }
    campaign.add(event="final", **facts)
    return facts
