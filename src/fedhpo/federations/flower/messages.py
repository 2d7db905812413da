"""Messages as Flower's: for `client(...)`, and for a `ClientApp` of your own.

What they say is in `fedhpo.federations.remote.messages`. Every message holds the record `fedhpo` with one
field, `json`, and, for each model in it, a record of named float32 arrays (of boosted trees: a record with
one field, `bytes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from fedhpo.federations.remote.layout import Rejected
from fedhpo.federations.remote.messages import from_text, to_text

RECORD, FIELD, BYTES = "fedhpo", "json", "bytes"


def content(
    facts: Mapping[str, Any], models: Mapping[str, Mapping[str, Array] | bytes] | None = None
) -> RecordDict:
    """Facts and models as the content of a message. Records are new each time: no two messages share one."""
    records: dict[str, Any] = {RECORD: ConfigRecord({FIELD: to_text(facts)})}
    for name, model in (models or {}).items():
        records[name] = ConfigRecord({BYTES: model}) if isinstance(model, bytes) else ArrayRecord(dict(model))
    return RecordDict(records)


def facts(message: Message) -> dict[str, Any]:
    """The JSON of a message; `Rejected` where there is none of ours."""
    record = message.content.get(RECORD)
    text = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    if not isinstance(text, str):
        raise Rejected(f"the message has no text {FIELD!r} in a record {RECORD!r}")
    return from_text(text)


def arrays_of(message: Message, name: Any) -> ArrayRecord:
    """A record of arrays by its name; `Rejected` where it is not there."""
    record = message.content.get(name) if isinstance(name, str) else None
    if not isinstance(record, ArrayRecord):
        raise Rejected(f"there is no record of arrays {str(name)[:60]!r}")
    return record


def bytes_of(message: Message, name: Any, most: int) -> bytes:
    """A record of bytes by its name; `Rejected` where it is not there, or has more than `most`."""
    record = message.content.get(name) if isinstance(name, str) else None
    found = record.get(BYTES) if isinstance(record, ConfigRecord) else None
    if not isinstance(found, bytes):
        raise Rejected(f"there is no record of bytes {str(name)[:60]!r}")
    if len(found) > most:
        raise Rejected(f"its model has {len(found)} bytes, at most {most} are read (message_bytes)")
    return found
