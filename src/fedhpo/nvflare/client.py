"""The client's side of an NVFlare job: one published method, through which the server asks for everything."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from nvflare.collab import collab

from fedhpo.core.errors import InputError
from fedhpo.federations.nvflare.transport import RUNTIME
from fedhpo.parties.answers import Answers
from fedhpo.parties.serving import Here, replied
from fedhpo.study import Study
from fedhpo.study.answers import answers


class Site(Here):
    """What the process of a site knows of itself."""

    def __init__(self, node_config: Mapping[str, Any]) -> None:
        super().__init__(0, node_config)  # a site has a process of its own


class Client:
    """A client that trains a study's model by fedhpo's own training, on its part of the study's data.

    Real clients bring their rows, and may train in their own way: write a subclass in a file of the job's,
    with a method `data(site)`, or with `train(arrays, task, site)` and `evaluate(arrays, task, site)`. What
    they take and return is said in `fedhpo.flower.client`, whose other arguments are methods or attributes
    here.

    `study` is the study's tables. Like all that NVFlare writes into a job it is plain data.
    """

    device = "cpu"
    tell_sizes = True
    hyperparameters: Any = None
    queries: Any = None
    privacy: Any = None
    hold_replies: float | None = None
    data: Any = None
    train: Any = None
    evaluate: Any = None
    sizes: Any = None
    labels: Any = None
    search: Any = None

    def __init__(self, study: Mapping[str, Any] | None = None) -> None:
        self.study = None if study is None else dict(study)
        self._answers: Answers | None = None
        self._site: Site | None = None
        # NVFlare calls from several threads, also while a call that timed out still works.
        self._alone = threading.Lock()

    @collab.publish
    def answer(self, kind: str, text: str, models: dict[str, Any]) -> dict[str, Any]:
        """The reply to a message of the server's."""
        return self.reply(str(collab.site_name), kind, text, models)

    def reply(self, site: str, kind: str, text: str, models: Mapping[str, Any]) -> dict[str, Any]:
        """The same, at a site of this name."""
        with self._alone:
            if self._answers is None or self._site is None:
                self._site, self._answers = Site(self.config(site)), self.answers()
            return replied(self._answers, kind, text, models, self._site)

    def config(self, site: str) -> dict[str, Any]:
        """What this site is: its name and, where the study's data is dealt, which part is its own.

        The part is the number at the end of the name, from 1: "site-3" takes the third.
        """
        number = re.search(r"(\d+)$", site)
        dealt = self.study is not None and self.data is None
        if dealt and number is None:
            raise InputError(
                f"site {site!r}: where the study's data is dealt a site's name ends in its number, from 1; "
                "real clients have a method data(site)"
            )
        part = {"partition-id": int(number.group(1)) - 1} if dealt and number is not None else {}
        return {"name": site, **part}

    def answers(self) -> Answers:
        """What this client answers."""
        return answers(
            runtime=RUNTIME,
            memory_of=lambda site: site,
            study=None if self.study is None or self.train is not None else Study.from_dict(self.study),
            data=self.data,
            device=self.device,
            tell_sizes=self.tell_sizes,
            train=self.train,
            evaluate=self.evaluate,
            sizes=self.sizes,
            labels=self.labels,
            search=self.search,
            hyperparameters=self.hyperparameters,
            queries=self.queries,
            privacy=self.privacy,
            hold_replies=self.hold_replies,
        )
