"""Reasons are kinds with a sentence: old records keep their bytes, and sentences decide nothing."""

import json
import struct

import numpy as np
import pytest

from fedhpo.core.canonical import canonical
from fedhpo.policies.losses import diverged
from fedhpo.protocol.failures import Failures
from fedhpo.protocol.federation import Answer, RoundReport, Scores, Status
from fedhpo.protocol.reasons import Reason, Why, from_record, inferred, raised, to_record, told
from fedhpo.run.codec import by_sentence, pack, unpack

FAILED, MISSING = int(Status.FAILED), int(Status.MISSING)
#: Sentences that 0.2.0 wrote, and what they stand for.
OLD = [
    (FAILED, "update is not finite", Why.DIVERGED),
    (FAILED, "updates are so large that the model after them is not finite", Why.OVERFLOW),
    (FAILED, "the update is not finite, as when the table was built", Why.DIVERGED),
    (FAILED, "no update came", Why.NO_UPDATE),
    (FAILED, "update of shape (3,), expected (4,)", Why.REJECTED),
    (FAILED, "ValueError: bad reading (own.py:3, in train)", Why.RAISED),
    (FAILED, "RuntimeError: KeyError: x", Why.RAISED),
    (FAILED, "the worker process died twice at this task (exit code 3)", Why.RAISED),
    (FAILED, "its arrays hold NaN or infinite numbers", Why.REJECTED),
    (FAILED, "it replied more than once", Why.REJECTED),
    (FAILED, "the reply is to trial 3, asked was trial 2", Why.REJECTED),
    (FAILED, "accuracy_after is 1.5, expected a number in 0..1", Why.REJECTED),
    (FAILED, "2 replies to 3 tasks", Why.REJECTED),
    (FAILED, "array 'w' has shape (2,), expected (3,)", Why.REJECTED),
    (FAILED, "tree 0: its values must be finite numbers", Why.REJECTED),
    (FAILED, "Bulyan: ValueError: too few", Why.STRATEGY),
    (FAILED, "FedAvg made no model of 3 replies", Why.STRATEGY),
    (MISSING, "too late: after the deadline", Why.LATE),
    (MISSING, "no reply within 600 s", Why.LATE),
    (MISSING, "late: 0 of 4 configs tried in 60 s", Why.LATE),
    (MISSING, "dropped out", Why.DROPPED),
    (MISSING, "no reply", Why.DROPPED),
    (MISSING, "not there any more", Why.GONE),
    (MISSING, "its node is not there", Why.GONE),
]


def report(status, reasons):
    count = len(status)
    none, nothing = np.zeros(count, np.int64), np.full(count, np.nan)
    cohort = np.arange(count)
    return RoundReport(0, 1, True, cohort, np.array(status, np.int8), none, none, *[nothing] * 4, reasons)


@pytest.mark.parametrize(("status", "text", "why"), OLD, ids=[text for _, text, _ in OLD])
def test_a_sentence_of_an_old_record_keeps_its_kind_and_its_bytes(status, text, why):
    failed = status == FAILED
    assert inferred(text, failed=failed) == why
    assert to_record(Reason(why, text), failed=failed) == [text]
    assert from_record(text, failed=failed) == Reason(why, text)


def test_the_kind_is_written_where_its_sentence_says_another():
    reason = Reason(Why.RAISED, "ValueError: the sum is not finite")
    payload = pack([report([FAILED, 0], {0: reason})])
    (length,) = struct.unpack_from("<I", payload)
    assert json.loads(payload[4 : 4 + length])["items"][0][3] == [[0, reason.text, "raised"]]
    assert unpack(payload)[0].reasons == {0: reason}
    answers = [Answer(1, Status.FAILED, reason=reason), Answer(2, Status.MISSING, reason=Reason(Why.LATE))]
    assert [one.reason for one in unpack(pack(answers))] == [reason, Reason(Why.LATE)]


def test_payloads_of_0_2_0_are_read_and_written_bit_for_bit():
    """The header as 0.2.0 wrote it: pairs of place and sentence, and answers of five facts."""
    payload = pack([report([FAILED, MISSING], {0: Reason(Why.DIVERGED), 1: Reason(Why.LATE)})])
    (length,) = struct.unpack_from("<I", payload)
    header = json.loads(payload[4 : 4 + length])
    old = [[0, "update is not finite"], [1, "too late: after the deadline"]]
    assert header["items"][0][3] == old
    facts = [[3, 1, None, "ValueError: no", [0, 0, 5, 0, 0, 0]], [4, 0, {"size": 2}, "", [0, 0, 5, 9, 0, 0]]]
    text = canonical({"kind": "answers", "items": facts})
    stored = struct.pack("<I", len(text)) + text
    found = unpack(stored)
    assert [one.reason for one in found] == [Reason(Why.RAISED, "ValueError: no"), None]
    assert pack(found) == stored


def test_a_run_of_0_2_0_goes_on_by_what_sentences_say():
    """Its events, run again, have their bytes, and new ones are judged as its first ones were."""
    reason = Reason(Why.RAISED, "ValueError: the sum is not finite", "ValueError")
    [found] = by_sentence([report([FAILED, MISSING], {0: reason, 1: Reason(Why.LATE)})])
    assert found.reasons == {0: Reason(Why.DIVERGED, reason.text), 1: Reason(Why.LATE)}
    assert found.reasons[0].open == "ValueError"
    payload = pack([found])
    (length,) = struct.unpack_from("<I", payload)
    assert json.loads(payload[4 : 4 + length])["items"][0][3][0] == [0, reason.text]
    answers = by_sentence([Answer(1, Status.FAILED, reason=reason), Answer(2, Status.OK, {"size": 1})])
    assert [one.reason for one in answers] == [Reason(Why.DIVERGED, reason.text), None]


def test_an_exception_with_our_words_is_no_divergence():
    words = report(
        [FAILED, FAILED], {0: Reason(Why.RAISED, "ValueError: x is not finite"), 1: Reason(Why.DIVERGED)}
    )
    assert diverged(words).tolist() == [False, True]
    heard = []
    Failures(heard.append).take([words])
    assert [failure.client for failure in heard] == [0]


def test_a_federation_that_tells_sentences_is_not_read_for_words():
    found = report([FAILED, MISSING], {0: "update is not finite", 1: "asleep"})
    assert [reason.why for reason in found.reasons.values()] == [Why.RAISED, Why.GONE]
    nothing = np.full(1, np.nan)
    scores = Scores(
        0, "test", np.zeros(1, int), np.ones(1, np.int8), np.ones(1, int), nothing, nothing, {0: "no"}
    )
    assert scores.reasons == {0: Reason(Why.RAISED, "no")}
    assert Answer(0, Status.FAILED, reason="no").reason == Reason(Why.RAISED, "no")
    assert Answer(0, Status.OK, reason="").reason is None


def test_what_a_client_tells_makes_none_of_its_words_safe():
    secret = "row 3 is 17.2"
    for why in Why:
        for missing in (False, True):
            for opened in (secret, "ValueError: " + secret, f"A (x:1, in {secret}(", 5, None):
                reason = told(secret, {"why": why.value, "open": opened}, missing=missing)
                assert "17.2" not in reason.sealed.text, (why, missing, opened)
                assert reason.why in (Why.RAISED, Why.DIVERGED, Why.LATE)
    assert told(secret, {"why": "diverged"}).text == "update is not finite"
    assert told("update is not finite", {}).why == Why.DIVERGED  # a client of 0.2.0
    assert told("update is not finite", {"why": "raised"}).why == Why.RAISED


def test_an_exception_is_sealed_to_its_class_and_line():
    try:
        raise ValueError("row 3 is 17.2")
    except ValueError as error:
        reason = raised(error)
    assert reason.sealed.text.startswith("ValueError (test_reasons.py:")
    again = told(reason.text, reason.facts)
    assert again.sealed == reason.sealed
