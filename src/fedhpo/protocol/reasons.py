"""Why a client's reply could not be used: a kind that code goes by, and a sentence that people read.

No code goes by the sentence, because anybody's exception may hold any words. Records of 0.2.0 hold sentences
only: `inferred` is the one place that reads a kind from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fedhpo.core.user_code import in_words, kind_and_place

#: The longest sentence of a client's that is kept.
LONGEST = 500


class Why(StrEnum):
    """Why a reply could not be used.

    >>> Why.DIVERGED.sentence, Why.DIVERGED.by_server, Why.RAISED.by_server
    ('update is not finite', True, False)
    """

    DIVERGED = "diverged"
    """The client trained, and its model is not finite: its config is to blame."""
    OVERFLOW = "overflow"
    """Every update is finite, the server's model after them is not."""
    TOO_LARGE = "too large"
    """The update is finite, and no model can take it. Its training diverged, or the client is hostile."""
    NO_UPDATE = "no update"
    """The client said that it trained, and sent no model."""
    REJECTED = "rejected"
    """The server refused what the client sent."""
    RAISED = "raised"
    """An exception at the client, or the end of its process."""
    STRATEGY = "strategy"
    """The server's Flower strategy made no model of the replies."""
    LATE = "late"
    """The client was not done in time."""
    GONE = "gone"
    """The client, or its node, is not there."""
    DROPPED = "dropped"
    """The client began, or should have, and never replied."""

    @property
    def sentence(self) -> str:
        """What is said where nothing more is known, or may be said."""
        return _SENTENCES[self]

    @property
    def short(self) -> str:
        """The sentence up to its colon, for counts."""
        return self.sentence.partition(":")[0]

    @property
    def by_server(self) -> bool:
        """Whether the server itself finds it: its sentence is ours and quotes no row."""
        return self not in (Why.REJECTED, Why.RAISED, Why.STRATEGY)


_SENTENCES = {
    Why.DIVERGED: "update is not finite",
    Why.OVERFLOW: "updates are so large that the model after them is not finite",
    Why.TOO_LARGE: "its update is so large that the model after it is not finite",
    Why.NO_UPDATE: "no update came",
    Why.REJECTED: "its reply was rejected",
    Why.RAISED: "failed",
    Why.STRATEGY: "the strategy failed",
    Why.LATE: "too late: after the deadline",
    Why.GONE: "not there any more",
    Why.DROPPED: "dropped out",
}


@dataclass(frozen=True)
class Reason:
    """Why a reply could not be used, and what is said of it: the kind's own sentence if `text` is left out.

    `open` is what a private run may say as well: nothing that could quote a client's rows. If left out, the
    kind's own sentence is said.

    >>> Reason(Why.DIVERGED)
    Reason(why=<Why.DIVERGED: 'diverged'>, text='update is not finite')
    >>> print(Reason(Why.LATE, "no reply within 3 s"))
    no reply within 3 s
    """

    why: Why
    text: str = ""
    open: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text or self.why.sentence)

    def __str__(self) -> str:
        return self.text

    @property
    def sealed(self) -> Reason:
        """The same without the words of a client, which may quote its rows.

        >>> Reason(Why.LATE, "late: row 17 is slow").sealed.text
        'too late: after the deadline'
        """
        return Reason(self.why, self.open)

    @property
    def facts(self) -> dict[str, Any]:
        """What a client sends of it beside its text."""
        return {"why": self.why.value, **({"open": self.open} if self.open else {})}


def ours(why: Why, text: str) -> Reason:
    """A reason in words of the server's that quote nothing of a client.

    >>> ours(Why.GONE, "its node is not there").sealed.text
    'its node is not there'
    """
    return Reason(why, text, text)


def raised(error: BaseException, text: str = "") -> Reason:
    """An exception at a client: in one line, or in these words. Its kind and its place stay open.

    >>> raised(KeyError("row 3 is 17.2")).sealed.text
    'KeyError'
    """
    return Reason(Why.RAISED, text or in_words(error), _opened(*kind_and_place(error)))


def told(text: object, facts: Mapping[str, Any], *, missing: bool = False) -> Reason:
    """What a client says of its failure. A kind of its own telling makes no words of its own safe.

    What only the server can find is not believed. A kind whose sentence is ours has that sentence.

    >>> told("row 3 is 17.2", {"why": "diverged"})
    Reason(why=<Why.DIVERGED: 'diverged'>, text='update is not finite')
    >>> told("row 3 is 17.2", {"why": "no update"}).why.value
    'raised'
    """
    said = str(text)[:LONGEST]
    if missing:
        return Reason(Why.LATE, said or "no reason given")
    # A client of 0.2.0 names no kind: one whose training diverged says so in this one sentence.
    kind = facts["why"] if "why" in facts else inferred_exactly(said)
    if kind == Why.DIVERGED:
        return Reason(Why.DIVERGED)
    opened = facts.get("open")
    known = opened if isinstance(opened, str) and _OPEN.fullmatch(opened) else ""
    return Reason(Why.RAISED, said or "no reason given", known)


def as_reason(found: Reason | str, *, failed: bool) -> Reason:
    """A reason as it is; of a federation that tells only a sentence, the most general kind.

    >>> as_reason("the weights are not finite", failed=True).why.value
    'raised'
    """
    return found if isinstance(found, Reason) else Reason(Why.RAISED if failed else Why.GONE, found)


def _opened(kind: str, place: str) -> str:
    return f"{kind} ({place})" if place else kind


#: What `_opened` makes: an exception's kind, and the line where it was raised.
_OPEN = re.compile(r"[A-Za-z_]\w{0,99}( \([^()]{1,200}:\d{1,7}, in [^()]{1,200}\))?")

# Records of 0.2.0, and those of later versions wherever the sentence says it all.

_REJECTED = re.compile(
    r"its |it sent |it replied |the reply |the arrays are |the message |array '|there is no |tree \d+|"
    r"\w+ replies to \d+ tasks|[\w.]+ is .*, expected |[\w.]+ must be |update of shape "
)
_STRATEGY = re.compile(
    r"\w+ made (no model of|the arrays|'.*' of shape) |"
    r"[A-Z]\w*(?<!Error)(?<!Exception): \w+(Error|Exception): "
)


def inferred(sentence: str, *, failed: bool) -> Why:
    """The kind that a sentence of a record stands for, where the record names none.

    >>> inferred("updates are so large that the model after them is not finite", failed=True).value
    'overflow'
    >>> [inferred(text, failed=False).value for text in ("no reply within 3 s", "no reply", "it is away")]
    ['late', 'dropped', 'gone']
    """
    if not failed:
        if sentence.startswith(("too late", "late: ", "no reply within ")):
            return Why.LATE
        dropped = ("dropped out", "no reply", "the training ended before its turn")
        return Why.DROPPED if sentence in dropped else Why.GONE
    if (exact := inferred_exactly(sentence)) is not None:
        return exact
    # So did 0.2.0 with every such sentence, and its runs must go on as they began.
    if "not finite" in sentence:
        return Why.DIVERGED
    if _STRATEGY.match(sentence):
        return Why.STRATEGY
    return Why.REJECTED if _REJECTED.match(sentence) else Why.RAISED


def inferred_exactly(sentence: str) -> Why | None:
    """The kind whose own sentence this is, of those that are about an update."""
    kinds = (Why.DIVERGED, Why.OVERFLOW, Why.TOO_LARGE, Why.NO_UPDATE)
    return next((why for why in kinds if sentence == why.sentence), None)


def to_record(reason: Reason, *, failed: bool) -> list[str]:
    """A reason as a record holds it: its sentence, and its kind only where that does not follow from it.

    So sentences that older versions wrote keep their bytes: a resumed run compares them.

    >>> to_record(Reason(Why.DIVERGED), failed=True)
    ['update is not finite']
    >>> to_record(Reason(Why.RAISED, "ValueError: my sum is not finite"), failed=True)
    ['ValueError: my sum is not finite', 'raised']
    """
    known = inferred(reason.text, failed=failed) == reason.why
    return [reason.text] if known else [reason.text, reason.why.value]


def from_record(text: str, kind: str | None = None, *, failed: bool) -> Reason:
    """What `to_record` was given, or an older version wrote."""
    return Reason(inferred(text, failed=failed) if kind is None else Why(kind), text)
