"""Study files: what to tune, on which data, with which method and budget."""

from fedhpo.study.study import Study

__all__ = ["Study"]
