"""Every sampler does what a sampler must do."""

from fedhpo.protocol.sampler import Sampler
from fedhpo.samplers import BOHB, GP, TPE, Grid, OptunaSampler, Random
from fedhpo.testing.sampler import SamplerSuite


class TestRandom(SamplerSuite):
    learns = False

    def sampler(self) -> Sampler:
        return Random()


class TestGrid(SamplerSuite):
    learns = False

    def sampler(self) -> Sampler:
        return Grid(3)


class TestTPE(SamplerSuite):
    def sampler(self) -> Sampler:
        return TPE()


class TestUnivariateTPE(SamplerSuite):
    def sampler(self) -> Sampler:
        return TPE(multivariate=False)


class TestTPEWithRandomShare(SamplerSuite):
    def sampler(self) -> Sampler:
        return TPE(multivariate=True, random_share=0.3)


class TestBOHB(SamplerSuite):
    def sampler(self) -> Sampler:
        return BOHB()


class TestGP(SamplerSuite):
    def sampler(self) -> Sampler:
        return GP()


class TestNoisyGP(SamplerSuite):
    def sampler(self) -> Sampler:
        return GP(acquisition="noisy-ei")


class TestOptunaTPE(SamplerSuite):
    def sampler(self) -> Sampler:
        return OptunaSampler("TPESampler", {"n_startup_trials": 5})


class TestOptunaRandom(SamplerSuite):
    learns = False

    def sampler(self) -> Sampler:
        return OptunaSampler("RandomSampler")
