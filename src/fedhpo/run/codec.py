"""Reports, scores and answers as compact bytes, and back, exactly. Never pickle.

A payload is a JSON header and raw little-endian columns. A column holds one field of all items of
an event, one after the other: integers in the smallest type that holds them (consecutive ones as
their first value only), floats in 4 bytes where that is exact, a column that all items share once.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.canonical import canonical
from fedhpo.protocol.bounds import checked_report, checked_scores
from fedhpo.protocol.federation import Answer, Cost, Products, RoundReport, Scores, Status, UpdateShapes
from fedhpo.protocol.reasons import Reason, from_record, inferred, to_record

Items = Sequence[RoundReport] | Sequence[Scores] | Sequence[Answer]

_REPORT = {
    "cohort": "<i8",
    "status": "<i1",
    "train_size": "<i8",
    "validation_size": "<i8",
    "loss_before": "<f8",
    "loss_after": "<f8",
    "accuracy_before": "<f8",
    "accuracy_after": "<f8",
}
_SCORES = {"clients": "<i8", "status": "<i1", "size": "<i8", "loss": "<f8", "accuracy": "<f8"}
_INTEGERS = [(t, np.iinfo(t).min, np.iinfo(t).max) for t in ("<i1", "<u1", "<i2", "<u2", "<i4", "<u4")]
_NATIVE = {dtype: np.dtype(dtype).newbyteorder("=") for dtype in ("<i8", "<i1", "<f8")}
_CONSECUTIVE = "consecutive"
#: Before the name of a further metric; no field is called so.
_METRIC = "metric "
# Below this the time to compress counts for more than the space: short rounds make many small events.
_WORTH_COMPRESSING = 16384


def pack(items: Items) -> bytes:
    """The items of one event, all of one kind, as a payload.

    >>> unpack(pack([Answer(3, Status.OK, {"loss": float("inf")})]))[0].content
    {'loss': inf}
    """
    untyped: Sequence[Any] = items
    if items and isinstance(items[0], RoundReport):
        facts = [[r.trial, r.round, bool(r.applied), *_extras(r), *_more(r)] for r in untyped]
        return _pack_columns("reports", facts, items, _REPORT)
    if items and isinstance(items[0], Scores):
        facts = [[s.trial, s.split, *_extras(s), *([s.seconds] if s.seconds else [])] for s in untyped]
        return _pack_columns("scores", facts, items, _SCORES, list(untyped[0].metrics))
    answers = [_answer_facts(answer) for answer in untyped]
    return _with_header({"kind": "answers", "items": answers}, b"")


def unpack(payload: bytes) -> list[Any]:
    """The items given to `pack`. Impossible scores, which 0.2.0 did not check, become failures."""
    (length,) = struct.unpack_from("<I", payload)
    header = json.loads(payload[4 : 4 + length])
    if header["kind"] == "answers":
        return [_answer(*facts) for facts in header["items"]]
    if header["kind"] == "reports":
        columns = _columns(header, payload, 4 + length, _REPORT)
        return [
            checked_report(
                RoundReport(
                    trial,
                    number,
                    applied,
                    **arrays,
                    reasons=_reasons(why, arrays["status"]),
                    cost=Cost(*cost),
                    **_of(more),
                )
            )
            for (trial, number, applied, why, cost, *more), arrays in zip(
                header["items"], columns, strict=True
            )
        ]
    names = header.get("metrics", [])
    columns = _columns(header, payload, 4 + length, _SCORES | _metric_types(names))
    return [
        checked_scores(
            Scores(
                trial,
                split,
                **{name: arrays[name] for name in _SCORES},
                reasons=_reasons(why, arrays["status"]),
                cost=Cost(*cost),
                metrics={name: arrays[_METRIC + name] for name in names},
                seconds=seconds[0] if seconds else 0.0,
            )
        )
        for (trial, split, why, cost, *seconds), arrays in zip(header["items"], columns, strict=True)
    ]


def as_unpacked(items: Items, payload: bytes) -> list[Any]:
    """What `unpack` would return for items just packed, at no cost where they already have that form."""
    types = {RoundReport: _REPORT, Scores: _SCORES}.get(type(items[0])) if items else None
    first: Any = items[0] if items else None
    if types is None or any(getattr(first, name).dtype != kind for name, kind in types.items()):
        return unpack(payload)
    return list(items)


def by_sentence(items: Items) -> list[Any]:
    """The same, with reason kinds inferred from sentences as 0.2.0 did, so that its runs can be resumed."""
    return [_by_sentence(item) for item in items]


def _by_sentence(item: Any) -> Any:
    if isinstance(item, Answer):
        return replace(item, reason=item.reason and _inferred(item.reason, item.status))
    found = {place: _inferred(reason, item.status[place]) for place, reason in item.reasons.items()}
    return replace(item, reasons=found) if found != item.reasons else item


def _inferred(reason: Reason, status: int) -> Reason:
    return replace(reason, why=inferred(reason.text, failed=status != Status.MISSING))


def squeeze(payload: bytes) -> bytes:
    """The payload for the disk: compressed where that is smaller, and marked so."""
    small = zlib.compress(payload, 1) if len(payload) > _WORTH_COMPRESSING else payload
    return b"\x01" + small if len(small) < len(payload) else b"\x00" + payload


def expand(stored: bytes) -> bytes:
    """What `squeeze` was given."""
    return zlib.decompress(stored[1:]) if stored[0] else stored[1:]


def _extras(item: RoundReport | Scores) -> tuple[Any, ...]:
    missing = item.status == Status.MISSING
    reasons = [[int(p), *to_record(why, failed=not missing[p])] for p, why in item.reasons.items()]
    return reasons, _cost(item.cost)


def _answer_facts(answer: Answer) -> list[Any]:
    failed, reason = answer.status != Status.MISSING, answer.reason
    text, *kind = [""] if reason is None else to_record(reason, failed=failed)
    return [answer.client, int(answer.status), answer.content, text, _cost(answer.cost), *kind]


def _answer(
    client: int, status: int, content: Any, text: str, cost: Sequence[int], kind: str | None = None
) -> Answer:
    reason = from_record(text, kind, failed=status != Status.MISSING) if text else None
    return Answer(client, Status(status), content, reason, Cost(*cost))


def _more(report: RoundReport) -> list[Any]:
    """Optional fields of reports: products of updates, their shapes, the span; empty where none is set."""
    found, updates = report.products, report.updates
    products = found and [
        *(found.squared.tolist(), found.with_previous.tolist()),
        *(found.aggregate_squared, found.aggregate_with_previous),
    ]
    shapes = None if updates is None else [updates.length.tolist(), updates.cosine.tolist()]
    if report.span is not None:
        return [products, shapes, list(report.span)]
    if shapes is None:
        return [] if products is None else [products]
    return [products, shapes]


def _of(facts: list[Any]) -> dict[str, Any]:
    """The fields that `_more` was given."""
    products, shapes, span = [*facts, None, None, None][:3]
    found: dict[str, Any] = {} if span is None else {"span": tuple(span)}
    if products is not None:
        squared, with_previous, *aggregate = products
        own = np.array(squared, np.float64), np.array(with_previous, np.float64)
        found["products"] = Products(*own, *aggregate)
    if shapes is not None:
        found["updates"] = UpdateShapes(*(np.array(column, np.float64) for column in shapes))
    return found


def _cost(cost: Cost) -> tuple[int, ...]:
    """`dataclasses.astuple` without its deep copies, which cost more than all else here."""
    return tuple(vars(cost).values())


def _reasons(listed: list[list[Any]], status: NDArray[np.int8]) -> dict[int, Reason]:
    return {place: from_record(*facts, failed=status[place] != Status.MISSING) for place, *facts in listed}


def _with_header(header: dict[str, Any], body: bytes) -> bytes:
    text = canonical(header)
    return struct.pack("<I", len(text)) + text + body


@np.errstate(over="ignore", under="ignore")  # of floats that do not fit into 4 bytes
def _pack_columns(
    kind: str, facts: list[Any], items: Sequence[Any], types: dict[str, str], metrics: Sequence[str] = ()
) -> bytes:
    lengths = [len(getattr(item, next(iter(types)))) for item in items]
    specs, bodies = [], []
    for name, dtype in (types | _metric_types(metrics)).items():
        parts = [np.asarray(_field(item, name), dtype=dtype) for item in items]
        for part, length in zip(parts, lengths, strict=True):
            if part.shape != (length,):
                raise ValueError(f"{name} has shape {part.shape}, {next(iter(types))} has {length} entries")
        alike = len(parts) > 1 and all(part.tobytes() == parts[0].tobytes() for part in parts[1:])
        spec, body = _narrow(parts[0] if alike or len(parts) == 1 else np.concatenate(parts))
        specs.append([spec, alike])
        bodies.append(body)
    header = {"kind": kind, "items": facts, "lengths": lengths, "columns": specs}
    if metrics:
        header["metrics"] = list(metrics)
    return _with_header(header, b"".join(bodies))


def _metric_types(names: Sequence[str]) -> dict[str, str]:
    """The columns of further metrics, which follow the others."""
    return {_METRIC + name: "<f8" for name in names}


def _field(item: Any, name: str) -> Any:
    return item.metrics[name.removeprefix(_METRIC)] if name.startswith(_METRIC) else getattr(item, name)


def _columns(header: Any, payload: bytes, offset: int, types: dict[str, str]) -> list[dict[str, Any]]:
    """The arrays of each item, by field."""
    lengths: list[int] = header["lengths"]
    found: list[dict[str, Any]] = [{} for _ in lengths]
    for (spec, alike), (name, dtype) in zip(header["columns"], types.items(), strict=True):
        count = lengths[0] if alike else sum(lengths)
        column, offset = _widen(spec, payload, offset, count, dtype)
        begin = 0
        for arrays, length in zip(found, lengths, strict=True):
            # Items that share a column still own their arrays: a method may write into one.
            arrays[name] = column.copy() if alike else column[begin : begin + length]
            begin += length
    return found


def _narrow(column: NDArray[Any]) -> tuple[Any, bytes]:
    """A column's entry in the header, and its bytes, as few as hold it exactly."""
    if column.dtype.kind == "f":
        short = column.astype("<f4")
        exact = short.astype("<f8").tobytes() == column.tobytes()
        return ("<f4", short.tobytes()) if exact else ("<f8", column.tobytes())
    if column.size == 0:
        return "<i1", b""
    low, high = int(column.min()), int(column.max())
    if column.size > 2 and high - low == column.size - 1 and bool((np.diff(column) == 1).all()):
        return [_CONSECUTIVE, low], b""
    for dtype, least, most in _INTEGERS:
        if least <= low and high <= most:
            return dtype, column.astype(dtype).tobytes()
    return "<i8", column.astype("<i8").tobytes()


def _widen(spec: Any, payload: bytes, offset: int, count: int, dtype: str) -> tuple[NDArray[Any], int]:
    native = _NATIVE[dtype]
    if isinstance(spec, list):
        return np.arange(spec[1], spec[1] + count, dtype=native), offset
    stored = np.dtype(spec)
    column = np.frombuffer(payload, dtype=stored, count=count, offset=offset).astype(native)
    return column, offset + count * stored.itemsize
