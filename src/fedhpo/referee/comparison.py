"""One proposal of a campaign: pairs until it is decided, then pairs from which the difference is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedhpo.core.errors import FedhpoError, InputError
from fedhpo.core.streams import derive
from fedhpo.referee.campaign import Campaign
from fedhpo.referee.judges import for_proposal
from fedhpo.referee.rules import DROP, KEEP, UNDECIDED, Rules
from fedhpo.referee.sides.side import Side, Terms, Training, check_equal, check_trained
from fedhpo.referee.verdict import NOTHING, Verdict, control_of, costs_of, difference_of, differences

#: With `equal = "bytes"`, how many times the base's bytes a candidate may move.
AT_MOST = 1.02
CONDITIONAL = "the verdict holds for the validation clients that this campaign uses again and again"


def check_base(campaign: Campaign, terms: Terms) -> None:
    """Refuse a base that is not the one that the campaign has come to."""
    if campaign.base["digest"] != terms.identity:
        raise InputError(
            f"{terms.name}: is not the base of campaign {campaign.path}, which is {campaign.base['name']} "
            f"(digest {campaign.base['digest'][:12]}) by now: give that one"
        )


class Comparison:
    """A base and a candidate in a campaign; the arguments are those of `fedhpo.verify`."""

    def __init__(
        self,
        campaign: Campaign,
        rules: Rules,
        base: Side,
        candidate: Side,
        tuned: Sequence[int],
        equal: str | None,
        control: int | str | None,
        say: Callable[[str], Any],
    ) -> None:
        self._campaign, self._rules, self._say = campaign, rules, say
        self._base, self._candidate, self._equal = base, candidate, equal
        check_equal(base.terms, candidate.terms)
        if base.terms.identity == candidate.terms.identity:
            raise InputError(
                f"{candidate.terms.name} is the base itself, with the same code, data and config: there is "
                "nothing to compare"
            )
        self._control = self._rounds_of(control)
        asked = [base.terms.asked, candidate.terms.asked, tuned]
        self._clients, self._note = for_proposal(campaign.head["judges"], asked)
        self._maximise: bool = campaign.head["maximise"]
        self._number = self._numbered()

    def _rounds_of(self, control: int | str | None) -> int | None:
        """The rounds of the scalar control."""
        if control != "spent":
            return control if isinstance(control, int) else None
        spent = self._candidate.terms.spent
        if spent is None:
            raise InputError(
                f"control = 'spent': {self._candidate.terms.name} is no run, so that what its author spent "
                "is not known: give the number of rounds"
            )
        return spent

    def _numbered(self) -> int:
        """The proposal's number: that of the same comparison, where the campaign has seen it before."""
        wanted = (self._base.terms.identity, self._candidate.terms.identity, self._control)
        for one in self._campaign.proposals:
            if (one["base"]["digest"], one["candidate"]["digest"], one["control"]) == wanted:
                return int(one["proposal"])
        check_base(self._campaign, self._base.terms)
        number, most = len(self._campaign.proposals) + 1, self._rules.proposals
        if most is not None and number > most:
            raise InputError(
                f"the campaign declared {most} proposals and has judged them: begin another one, with other "
                "proposals in mind, or one without an end"
            )
        return number

    def verdict(self) -> Verdict:
        """The verdict of the record, or what pairs say from here on."""
        campaign, number = self._campaign, self._number
        said = campaign.verdict(number)
        self._check_bytes()
        moved_on = campaign.base["digest"] != self._base.terms.identity
        if said in (KEEP, DROP) or (said == UNDECIDED and moved_on):
            self._say(f"proposal {number} was judged before: {said}")
            return Verdict(campaign.of(number, "verdict")[-1]["facts"])
        self._rules.check_reachable(number)
        self._announce()
        if not campaign.of(number, "pair"):
            self._first()
        while (found := self._judged()) is None:
            self._pair(after=False)
        if found == KEEP:
            while len(self._pairs(after=True)) < self._rules.after:
                self._pair(after=True)
        facts = self._facts(found)
        if said != UNDECIDED or len(self._pairs()) > campaign.of(number, "verdict")[-1]["facts"]["pairs"]:
            campaign.add(event="verdict", proposal=number, verdict=found, facts=facts)
        return Verdict(facts)

    def _announce(self) -> None:
        rules, number = self._rules, self._number
        of = f" of {rules.proposals}" if rules.proposals is not None else ""
        trained = "" if self._control is None else " and the control"
        self._say(
            f"proposal {number}{of}: {self._candidate.terms.name} against {self._base.terms.name}{trained}; "
            f"kept at evidence {rules.threshold(number):g}, which takes at least {rules.least_pairs(number)} "
            f"pairs; undecided after {rules.pairs}; {rules.after} more pairs after a keep"
        )

    def _first(self) -> None:
        """The first pair, which shows costs; unequal ones are refused before anything is noted."""
        line = self._trained(0)
        self._check_bytes(line)
        names = [
            {"name": terms.name, "digest": terms.identity, "code": terms.code, "data": terms.data}
            for terms in (self._base.terms, self._candidate.terms)
        ]
        self._campaign.add(
            event="proposal",
            proposal=self._number,
            base=names[0],
            candidate=names[1],
            control=self._control,
            clients=self._clients,
        )
        self._campaign.add(event="pair", proposal=self._number, **self._with_control(line), after=False)

    def _pair(self, *, after: bool) -> None:
        """One more pair."""
        line = self._trained(len(self._campaign.of(self._number, "pair")))
        self._campaign.add(event="pair", proposal=self._number, **self._with_control(line), after=after)
        seen = self._pairs()
        evidence = self._rules.support(differences(seen, "score", self._maximise))
        self._say(
            f"pair {len(self._pairs(after=True))} of {self._rules.after} after the decision"
            if after
            else f"pair {len(seen)}: evidence {evidence:.3g}"
        )
        self._check_bytes()

    def _trained(self, place: int) -> dict[str, Any]:
        """Both sides with the same fresh seed."""
        seed = derive(self._campaign.head["seed"], "pair", self._number, place)
        ours = self._base.train(seed, self._clients)
        if ours.score is None:
            raise FedhpoError(f"the base {self._base.terms.name} cannot be trained: {ours.failed}")
        theirs = self._candidate.train(seed, self._clients)
        if theirs.score is not None:
            check_trained(self._base.terms, self._candidate.terms, ours, theirs)
        return {"pair": place, "seed": seed, "base": ours.to_dict(), "candidate": theirs.to_dict()}

    def _with_control(self, line: dict[str, Any]) -> dict[str, Any]:
        if self._control is None:
            return line
        found = self._campaign.of(self._number, "control")
        if not found:
            self._say(f"control: {self._base.terms.name} is tuned for {self._control} rounds")
            seed = derive(self._campaign.head["seed"], "control", self._number)
            config = self._base.tune(self._control, seed, self._clients)
            self._campaign.add(event="control", proposal=self._number, config=config)
            found = self._campaign.of(self._number, "control")
        one: Training = self._base.train(line["seed"], self._clients, found[0]["config"])
        if one.score is None:
            raise FedhpoError(f"the control cannot be trained: {one.failed}")
        return line | {"control": one.to_dict()}

    def _check_bytes(self, *new: dict[str, Any]) -> None:
        """Refuse a candidate that moves more bytes over all pairs so far."""
        pairs = [*self._campaign.of(self._number, "pair"), *new]
        if self._equal is None or not pairs or "failed" in pairs[-1]["candidate"]:
            return
        ratio = costs_of(pairs)["bytes"]["ratio"]
        name = self._candidate.terms.name
        if ratio is None:
            raise InputError(f"equal = 'bytes': {name} or its base does not tell the bytes that it moves")
        if ratio > AT_MOST:
            raise InputError(
                f"equal = 'bytes': {name} moves {ratio:.3f} times the bytes of {self._base.terms.name}, and "
                f"at most {AT_MOST:g} times are allowed"
            )

    def _pairs(self, *, after: bool = False) -> list[dict[str, Any]]:
        return [one for one in self._campaign.of(self._number, "pair") if one["after"] == after]

    def _judged(self) -> str | None:
        pairs, rules = self._pairs(), self._rules
        if any("failed" in one["candidate"] for one in pairs):
            return DROP
        found = rules.judge(self._number, differences(pairs, "score", self._maximise))
        if self._control is None or found == DROP:
            return found
        tuned = differences(pairs, "score", self._maximise, "control")
        if rules.against(tuned) >= 1 / rules.drop:
            return DROP
        if found == KEEP and rules.support(tuned) < rules.threshold(self._number):
            return UNDECIDED if len(pairs) >= rules.pairs else None
        return found

    def _facts(self, found: str) -> dict[str, Any]:
        seen, after = self._pairs(), self._pairs(after=True)
        every = self._campaign.of(self._number, "pair")
        told = after if found == KEEP else seen
        where = (
            "from pairs after the decision"
            if found == KEEP
            else "from the pairs that decided, whose number depended on them"
        )
        failed = next((one["candidate"]["failed"] for one in every if "failed" in one["candidate"]), "")
        base, candidate = self._base.terms, self._candidate.terms
        whole = [one for one in told if "failed" not in one["candidate"]]
        scores = [one["candidate"]["score"] for one in whole]
        return {
            "verdict": found,
            "proposal": self._number,
            "metric": self._campaign.head["metric"],
            "base": {"name": base.name, "kind": base.kind},
            "candidate": {"name": candidate.name, "kind": candidate.kind},
            "difference": (difference_of(whole, "score", self._maximise) or dict(NOTHING)) | {"from": where},
            "score": sum(scores) / len(scores) if scores else None,
            "tail": difference_of(whole, "tail", self._maximise),
            "evidence": self._rules.support(differences(seen, "score", self._maximise)),
            "threshold": self._rules.threshold(self._number),
            "pairs": len(seen),
            "trainings": sum(len({"base", "candidate", "control"} & one.keys()) for one in every),
            "cost": costs_of(every),
            "control": None if self._control is None else control_of(told, self._control, self._maximise),
            "failed": failed,
            "notes": self._notes(),
            "digests": {"base": base.identity, "candidate": candidate.identity, "data": candidate.data},
        }

    def _notes(self) -> list[str]:
        notes = [CONDITIONAL] if self._clients is not None else []
        if self._note:
            notes.append(self._note)
        if self._control is not None and self._clients is not None:
            notes.append("the control was tuned on the clients that judge, which can only favour it")
        for terms in (self._base.terms, self._candidate.terms):
            if not terms.pairs_cohorts:
                notes.append(f"{terms.name}: draws its own cohorts; pairs are matched by their seed only")
            if terms.note:
                notes.append(f"{terms.name}: {terms.note}")
            if terms.data is None:
                notes.append(f"{terms.name}: its clients' rows are not known here, so that none are compared")
        return list(dict.fromkeys(notes))
