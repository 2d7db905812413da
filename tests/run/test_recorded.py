"""The recorded federation: served, run again, new; checkpoints; what cannot repeat itself."""

import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedhpo.core.run_errors import BudgetError, ReplayError, RunError
from fedhpo.protocol.federation import CLIENT_CONFIGS, Cost, TrialError, Work
from fedhpo.protocol.state_file import read_state
from fedhpo.run import Budget, Ledger, Run, open_read
from fedhpo.run.recorded import RecordedSession
from fedhpo.testing import ToyFederation

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from small_method import method as small_method


class Crash(Exception):
    """The process ends here."""


class Counting(ToyFederation):
    """A toy that knows which rounds it trained."""

    def __init__(self, **options):
        super().__init__(**options)
        self.trained = []

    def _train(self, work):
        report = super()._train(work)
        self.trained.append((work.trial, report.round))
        return report


def opened(path, budget=None):
    return Run.create_or_open(path, {"seed": 7}, "small", 1, budget=budget)


def session(path, inner, work, *, crash_after=None, share=0.05):
    """Do `work` until so many events are over; then leave as a crash does, with nothing put in order."""
    run = opened(path)

    def on_event(progress):
        if progress.number == crash_after:
            raise Crash

    federation = RecordedSession(inner, run.record, run.ledger, on_event=on_event, checkpoint_share=share)
    try:
        return work(federation), asdict(run.ledger.cost)
    finally:
        run.record._database.close()
        run._lock.release()


@pytest.mark.parametrize(("share", "later_share"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
def test_crashed_after_any_event_goes_on_to_the_same_result(tmp_path, share, later_share):
    def toy():
        return ToyFederation(missing=0.1)

    method = partial(small_method, rounds=8)
    whole = session(tmp_path / "whole", toy(), method)
    last = open_read(tmp_path / "whole").record.last
    for crash_after in range(1, last, 6):
        path = tmp_path / str(crash_after)
        with pytest.raises(Crash):
            session(path, toy(), method, crash_after=crash_after, share=share)
        with pytest.raises(Crash):
            session(path, toy(), method, crash_after=crash_after + 3, share=later_share)
        assert session(path, toy(), method) == whole
        assert open_read(path).facts()["repeats"] is True


def rounds(count, trials=2, **work):
    """A method: so many rounds of each trial, side by side."""

    def run(federation):
        for trial in range(trials):
            federation.start(trial, {}, seed=trial)
        return [
            [
                r.loss_after.tolist()
                for r in federation.round([Work(t, [0, 1, 2], {"lr": 0.1}) for t in range(trials)])
            ]
            for _ in range(count)
        ]

    return run


def test_up_to_the_checkpoint_nothing_is_trained_again(tmp_path):
    def stopped(federation):
        rounds(3)(federation)
        assert federation.checkpoint()
        federation.round([Work(1, [4], {"lr": 0.1})])

    def whole(federation):
        result = rounds(3)(federation)
        federation.round([Work(1, [4], {"lr": 0.1})])
        federation.round([Work(0, [4], {"lr": 0.1})])
        return result

    session(tmp_path / "run", Counting(), stopped, share=0.0)
    toy = Counting()
    _, cost = session(tmp_path / "run", toy, whole, share=0.0)
    assert toy.trained == [(1, 4), (0, 4)]  # the round after the checkpoint again, then the new one
    assert cost["rounds"] == 8
    assert open_read(tmp_path / "run").record.spent()["rounds"] == 8
    again = Counting()
    session(tmp_path / "run", again, whole, share=0.0)
    assert again.trained == [(1, 4), (0, 4)]


def test_only_changed_trials_are_written_and_superseded_files_deleted(tmp_path):
    run = opened(tmp_path / "run")
    federation = RecordedSession(ToyFederation(), run.record, run.ledger, checkpoint_share=0.0)
    files = tmp_path / "run" / "checkpoints"
    rounds(2)(federation)
    assert federation.checkpoint()
    assert sorted(f.name for f in files.iterdir()) == [
        "trial-0-event-4.safetensors",
        "trial-1-event-4.safetensors",
    ]
    federation.round([Work(1, [0], {"lr": 0.1})])
    (files / "trial-0-event-4.safetensors").touch()
    written = (files / "trial-0-event-4.safetensors").stat().st_mtime_ns
    assert federation.checkpoint()
    assert sorted(f.name for f in files.iterdir()) == [
        "trial-0-event-4.safetensors",
        "trial-1-event-5.safetensors",
    ]
    assert (files / "trial-0-event-4.safetensors").stat().st_mtime_ns == written
    assert read_state(files / "trial-1-event-5.safetensors").facts["round"] == 3
    federation.stop(1)
    federation.evaluate([0], [1])  # nothing changed: the checkpoint moves along
    assert [f.name for f in files.iterdir()] == ["trial-0-event-4.safetensors"]
    run.close()

    (files / "trial-9-event-9.safetensors.part").write_text("left behind")
    (files / "trial-9-event-9.safetensors").write_text("never named")
    with opened(tmp_path / "run"):
        assert [f.name for f in files.iterdir()] == ["trial-0-event-4.safetensors"]


def test_checkpoints_take_at_most_their_share(tmp_path):
    class Slow(ToyFederation):
        def state(self, trial):  # a checkpoint of one trial takes 5 ms at least
            time.sleep(0.005)
            return super().state(trial)

    run = opened(tmp_path / "run")
    federation = RecordedSession(Slow(seconds=0.005), run.record, run.ledger)
    rounds(120, trials=1)(federation)
    record = run.record
    assert record.checkpoint > 2  # at least one was taken
    one = 0.05  # seconds: a generous file, fsync and all
    assert record.checkpoint_seconds <= 0.05 * record.active_seconds + one
    facts = run.facts()
    assert facts["checkpoint_share"] == pytest.approx(facts["checkpoint_seconds"] / facts["active_seconds"])
    run.close()


def test_without_a_share_no_checkpoint_is_taken(tmp_path):
    run = opened(tmp_path / "run")
    rounds(5)(RecordedSession(ToyFederation(), run.record, run.ledger, checkpoint_share=0.0))
    assert run.record.checkpoint == 0
    assert not (tmp_path / "run" / "checkpoints").exists()
    run.close()


def test_what_cannot_repeat_is_committed_with_every_event(tmp_path):
    def work(federation):
        seen = rounds(3)(federation)
        seen.append(federation.evaluate([0, 1], [0, 1])[1].loss.tolist())
        federation.submit(Work(0, [0], {"lr": 0.1}))
        federation.submit(Work(1, [0], {"lr": 0.1}))
        seen += [federation.next_done().loss_after.tolist() for _ in range(2)]
        return seen, federation.state(0).arrays["weights"].tolist()

    def toy():
        return Counting(repeatable=False)

    for crash_after in range(1, 10):
        path = tmp_path / str(crash_after)
        shown = []

        def watched(federation, shown=shown):
            inner_round = federation.round
            federation.round = lambda works: shown.append(inner_round(works)) or shown[-1]
            return work(federation)

        with pytest.raises(Crash):
            session(path, toy(), watched, crash_after=crash_after)
        run = open_read(path)
        answered = [
            event.number for event in run.record.events() if event.kind in ("round", "done", "evaluate")
        ]
        assert run.record.checkpoint == (answered[-1] if answered else 0)
        before = run.record.spent()["rounds"]
        inner = toy()
        (result, weights), cost = session(path, inner, work)
        # What the method saw before is what it sees now.
        for reports, seen in zip(shown, result, strict=False):
            assert [report.loss_after.tolist() for report in reports] == seen
        done = sum(1 for event in open_read(path).record.events() if event.kind in ("round", "done"))
        assert done == 5
        assert cost["rounds"] == 8
        assert len(inner.trained) == 8 - before  # nothing was trained twice
        (again, same), _ = session(path, toy(), work)
        assert (again, same) == (result, weights)


def in_turn(federation):
    """An asynchronous method: whoever is done goes on."""
    generator = np.random.default_rng(0)

    def work(trial):
        return Work(trial, generator.choice(20, 3, replace=False).tolist(), {"lr": 0.1})

    for trial in range(4):
        federation.start(trial, {}, seed=trial)
        federation.submit(work(trial))
    order = []
    for number in range(24):
        report = federation.next_done()
        order.append((report.trial, report.round, report.loss_after.tolist()))
        if number < 20:
            federation.submit(work(report.trial))
    return order


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_rounds_end_in_the_recorded_order_on_replay(tmp_path, share):
    for crash_after in (9, 12, 17, 30, 31):
        path = tmp_path / str(crash_after)
        with pytest.raises(Crash):
            session(path, Counting(arrivals=1), in_turn, crash_after=crash_after, share=share)
        before = [row["trial"] for row in open_read(path).history()]
        inner = Counting(arrivals=2)  # now they end in another order
        order, cost = session(path, inner, in_turn, share=share)
        assert [trial for trial, _, _ in order][: len(before)] == before
        assert cost["rounds"] == 24
        assert open_read(path).facts()["repeats"] is True
        assert session(path, Counting(arrivals=3), in_turn, share=share)[0] == order


def test_a_checkpoint_holds_trials_under_way_as_they_were_before(tmp_path):
    run = opened(tmp_path / "run")
    federation = RecordedSession(ToyFederation(), run.record, run.ledger, checkpoint_share=0.0)
    rounds(1)(federation)
    for trial in range(2):
        federation.submit(Work(trial, [0], {"lr": 0.1}))
    assert federation.next_done(0).round == 2
    federation.checkpoint()
    states = {
        trial: read_state(tmp_path / "run" / "checkpoints" / f.name)
        for trial, f in run.record.files().items()
    }
    assert {trial: state.facts["round"] for trial, state in states.items()} == {0: 2, 1: 1}
    run.close()


def test_another_result_on_another_machine_warns_once_and_keeps_the_recorded_one(tmp_path):
    first = session(tmp_path / "run", ToyFederation(noise=0.05), rounds(4), share=0.0)
    with pytest.warns(UserWarning, match=r"event 3 \(round\) gave another result") as caught:
        again = session(tmp_path / "run", ToyFederation(noise=0.06), rounds(4), share=0.0)
    assert len([w for w in caught if "gave another result" in str(w.message)]) == 1
    assert again == first
    assert open_read(tmp_path / "run").facts()["repeats"] is False


def test_the_ledger_stands_where_it_stood_while_replaying(tmp_path):
    def watched(federation):
        federation.start(0, {}, seed=0)
        seen = []
        for _ in range(4):
            federation.round([Work(0, [0, 1], {"lr": 0.1})])
            seen.append((federation.ledger.cost.rounds, federation.ledger.seconds))
        return seen

    first = session(tmp_path / "run", ToyFederation(), watched)
    assert [count for count, _ in first[0]] == [1, 2, 3, 4]
    assert session(tmp_path / "run", ToyFederation(), watched) == first


def test_decisions_are_taken_once(tmp_path):
    def work(federation):
        return federation.decide("ask", {"n": 1}, lambda: {"lr": (0.1, np.float64(0.2))})

    first, _ = session(tmp_path / "run", ToyFederation(), work)
    assert first == {"lr": [0.1, 0.2]}

    def never():
        raise AssertionError("computed again")

    assert session(tmp_path / "run", ToyFederation(), lambda f: f.decide("ask", {"n": 1}, never))[0] == first
    with pytest.raises(ReplayError, match=r"event 1 \(decide ask\) .* n was 1, now it is 2"):
        session(tmp_path / "run", ToyFederation(), lambda f: f.decide("ask", {"n": 2}, never))


def test_a_private_release_is_charged_before_it_is_drawn_and_drawn_once(tmp_path):
    path = tmp_path / "run"

    def dies():
        assert open_read(path).record.spent()["epsilon"] == 0.5  # on disk already
        raise Crash

    def release(compute):
        return lambda federation: (
            federation.decide("release", "mean", compute, epsilon=0.5),
            federation.ledger.epsilon,
        )

    with pytest.raises(Crash):
        session(path, ToyFederation(), release(dies))
    (value, epsilon), _ = session(path, ToyFederation(), release(lambda: 0.25))
    assert (value, epsilon) == (0.25, 0.5)
    (value, epsilon), _ = session(path, ToyFederation(), release(lambda: 0.75))
    assert (value, epsilon) == (0.25, 0.5)
    assert open_read(path).record.spent()["epsilon"] == 0.5


def test_a_release_beyond_the_budget_is_refused_and_not_recorded(tmp_path):
    run = opened(tmp_path / "run", Budget(epsilon=0.75))
    federation = RecordedSession(ToyFederation(), run.record, run.ledger)
    assert federation.decide("release", 1, lambda: 1, epsilon=0.5) == 1
    with pytest.raises(BudgetError, match="epsilon"):
        federation.decide("release", 2, lambda: 1, epsilon=0.5)
    assert run.record.last == 1
    assert run.ledger.epsilon == 0.5
    run.close()


def test_a_missing_checkpoint_file_means_running_again(tmp_path):
    def whole(federation):
        result = rounds(4)(federation)
        federation.checkpoint()
        return result

    first = session(tmp_path / "run", ToyFederation(), whole)
    (tmp_path / "run" / "checkpoints" / "trial-1-event-6.safetensors").unlink()
    inner = Counting()
    with pytest.warns(UserWarning, match=r"trial-1-event-6.safetensors is missing: .* are run again"):
        assert session(tmp_path / "run", inner, whole, share=0.0) == first
    assert len(inner.trained) == 8


def test_without_its_files_what_cannot_repeat_cannot_go_on(tmp_path):
    session(tmp_path / "run", ToyFederation(repeatable=False), rounds(2))
    for file in (tmp_path / "run" / "checkpoints").iterdir():
        file.unlink()
    with pytest.raises(RunError, match="its federation cannot repeat what was trained"):
        opened(tmp_path / "run")


def test_the_state_of_the_past_is_refused_by_name(tmp_path):
    def whole(federation):
        result = rounds(3)(federation)
        federation.checkpoint()
        return result

    def early(federation):
        rounds(1)(federation)
        federation.state(0)

    session(tmp_path / "run", ToyFederation(), whole)
    with pytest.raises(
        RunError, match="state of trial 0 at event 3 is gone: the run is resumed from event 5"
    ):
        session(tmp_path / "run", ToyFederation(), early)


def test_trials_left_in_the_federation_make_way(tmp_path):
    toy = ToyFederation()
    toy.start(0, {}, seed=9)
    toy.submit(Work(0, [0], {"lr": 0.1}))
    fresh = session(tmp_path / "fresh", ToyFederation(), rounds(2))
    assert session(tmp_path / "left", toy, rounds(2)) == fresh


def test_a_restored_state_is_matched_by_digest(tmp_path):
    toy = ToyFederation(noise=0.0)
    toy.start(0, {}, seed=0)
    toy.round([Work(0, [0], {"lr": 0.1})])
    state = toy.state(0)

    def work(state):
        def run(federation):
            federation.restore(3, state)
            return federation.evaluate([3], [0])[0].loss.tolist()

        return run

    assert session(tmp_path / "run", ToyFederation(noise=0.0), work(state))[0] == [0.25]
    assert session(tmp_path / "run", ToyFederation(noise=0.0), work(state))[0] == [0.25]
    toy.round([Work(0, [0], {"lr": 0.1})])
    with pytest.raises(ReplayError, match=r"event 1 \(restore\)"):
        session(tmp_path / "run", ToyFederation(noise=0.0), work(toy.state(0)))


def test_many_clients_go_into_a_call_as_a_digest(tmp_path):
    def ask(clients):
        def run(federation):
            federation.start(0, {}, seed=0)
            return federation.evaluate([0], clients)[0].clients.tolist()

        return run

    everyone = np.arange(100_000)
    session(tmp_path / "run", ToyFederation(100_000), ask(everyone))
    with open_read(tmp_path / "run") as run:
        assert len(list(run.record.events())[1].call) < 200
    assert session(tmp_path / "run", ToyFederation(100_000), ask(everyone))[0] == everyone.tolist()
    with pytest.raises(ReplayError, match=r"clients\.digest"):
        session(tmp_path / "run", ToyFederation(100_000), ask(everyone[::-1]))


def test_it_passes_on_what_the_federation_is(tmp_path):
    with opened(tmp_path / "run") as run:
        toy = ToyFederation(7)
        federation = RecordedSession(toy, run.record, run.ledger)
        assert federation.train_clients.tolist() == list(range(7))
        assert CLIENT_CONFIGS in federation.capabilities
        assert federation.describe() == toy.describe() == run.facts()["federation"]
        assert not federation.replaying
        federation.start(4, {}, seed=0)
        assert list(federation.trials) == [4]
        with pytest.raises(TrialError):
            federation.start(4, {}, seed=0)
        assert isinstance(run.ledger, Ledger)
        assert run.ledger.cost == Cost()
