"""The answers of a client, made of a study or of functions of its owner's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedhpo.core.errors import InputError
from fedhpo.federations.remote.messages import Task
from fedhpo.parties.answers import Answers
from fedhpo.parties.context import Context, Memory
from fedhpo.parties.once import answered_once
from fedhpo.parties.own_party import OwnParty
from fedhpo.parties.party import EvaluateFunction, LabelsFunction, Party, QueryFunction, TrainFunction
from fedhpo.parties.searching import SearchFunction, searching
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.protocol.query import check_query_class, query_of
from fedhpo.queries.local_search import LocalSearch

if TYPE_CHECKING:
    from fedhpo.study.study import Study


def answers(
    *,
    runtime: str,
    memory_of: Callable[[Any], Memory],
    study: Study | str | Path | None = None,
    data: Callable[[Any], Any] | None = None,
    device: str = "cpu",
    tell_sizes: bool = True,
    train: TrainFunction | None = None,
    evaluate: EvaluateFunction | None = None,
    sizes: Callable[[Any], Mapping[str, int]] | None = None,
    labels: LabelsFunction | None = None,
    search: SearchFunction | None = None,
    hyperparameters: Sequence[str] | None = None,
    queries: Mapping[str, QueryFunction] | Sequence[type[Any]] | None = None,
    privacy: LocalPrivacy | None = None,
    hold_replies: float | None = None,
) -> Answers:
    """The answers of a client that these describe, as in `fedhpo.flower.client`.

    `runtime` is the study's section about what brings the messages, `memory_of(context)` what a client keeps
    from one message of a run to the next.
    """
    if (study is None) == (train is None):
        raise InputError("give either study, or train and evaluate")
    known: dict[str, QueryFunction] = {}
    party: Party
    hold = lambda: 0.0  # noqa: E731
    if study is not None:
        from fedhpo.study.party import StudyParty

        ours = party = StudyParty(study, data, device, tell_sizes, runtime)
        known = dict(ours.queries)
        hold = lambda: ours.hold_replies  # noqa: E731
    elif train is None or evaluate is None:
        raise InputError("evaluate is missing: without it the server has nothing to select by")
    else:
        names = None if hyperparameters is None else tuple(sorted(hyperparameters))
        own = party = OwnParty(train, evaluate, sizes, labels, tell_sizes, names)
        if search is not None:
            known[LocalSearch.name] = searching(search, own.rows, tell_sizes)
    known |= queries if isinstance(queries, Mapping) else _own_queries(queries or (), party, memory_of)
    if privacy is not None:
        from fedhpo.parties.private_party import PrivateParty

        if queries:
            raise InputError(
                "queries: a client with privacy answers no queries but local searches: leave them out"
            )
        private = PrivateParty(party, privacy, known)
        party, known = private, private.queries
    return Answers(party, known, hold if hold_replies is None else lambda: hold_replies)


def _own_queries(
    kinds: Sequence[type[Any]], party: Party, memory_of: Callable[[Any], Memory]
) -> dict[str, QueryFunction]:
    """A function for each class of queries that the client's owner listed."""
    named = {check_query_class(kind): kind for kind in kinds}
    if named and not hasattr(party, "answer"):
        raise InputError(
            "queries: classes need study, whose rows they are answered from; with train and evaluate give "
            "functions by name, queries={'name': function}"
        )

    def function(kind: type[Any]) -> QueryFunction:
        def answer(asked: Mapping[str, Any], model: Any, task: Task, context: Context) -> Any:
            query: Any = query_of(kind, asked)

            def of(query: Any) -> Any:
                return party.answer(query, model, task, context)  # type: ignore[attr-defined]

            # A private one: noise that a server could undo is drawn here, and once.
            if hasattr(query, "at_client"):
                return answered_once(query.at_client(), memory_of(context), of)
            return of(query)

        return answer

    return {name: function(kind) for name, kind in named.items()}
