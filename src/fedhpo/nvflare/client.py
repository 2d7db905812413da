"""The client's side of an NVFlare job: one published method, through which the server asks for everything."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nvflare.collab import collab

from fedhpo.core.errors import InputError
from fedhpo.federations.nvflare.transport import MODELS, RUNTIME, TEXT
from fedhpo.federations.remote.layout import Rejected
from fedhpo.federations.remote.messages import from_text, to_text
from fedhpo.parties.answers import Answers, answers
from fedhpo.study import Study


@dataclass
class Site:
    """What the process of a site knows of itself."""

    node_config: Mapping[str, Any]
    node_id: int = 0  # a site has a process of its own
    _kept: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The site's name."""
        return str(self.node_config["name"])

    def recall(self, key: str) -> str | None:
        """What was kept from an earlier message of the job."""
        return self._kept.get(key)

    def keep(self, key: str, text: str) -> None:
        """Keep it for as long as the job runs."""
        self._kept[key] = text


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

        def model_of(name: Any) -> Any:
            found = models.get(name) if isinstance(name, str) else None
            if not isinstance(found, dict | bytes):
                raise Rejected(f"there is no model {str(name)[:60]!r}")
            return found

        with self._alone:
            if self._answers is None or self._site is None:
                self._site, self._answers = Site(self.config(site)), self.answers()
            replies, after = self._answers(kind, from_text(text), model_of, self._site)
        return {TEXT: to_text({"replies": replies}), MODELS: after}

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
