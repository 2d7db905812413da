"""What a study trains: one class for each kind, and the only place that asks which kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedhpo.study.kinds.apps import AppKind
from fedhpo.study.kinds.jobs import JobKind
from fedhpo.study.kinds.kind import Kind
from fedhpo.study.kinds.learners import BOOSTED, NAMES, LearnerKind, TreesKind
from fedhpo.study.kinds.torch_models import TorchKind
from fedhpo.study.kinds.trainees import TraineeKind, trainee_class

if TYPE_CHECKING:
    from fedhpo.study.study import Study

__all__ = ["Kind", "kind_of"]


def kind_of(study: Study) -> Kind:
    """What the study trains."""
    name = study.file.model.name
    if study.file.app is not None:
        return AppKind(study, study.file.app)
    if study.file.job is not None:
        return JobKind(study, study.file.job)
    if name in NAMES:
        return TreesKind(study) if name in BOOSTED else LearnerKind(study)
    return TorchKind(study) if trainee_class(study.file.model) is None else TraineeKind(study)
