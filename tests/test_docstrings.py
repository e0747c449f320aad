"""Parameters that several classes share are described once, and shown by each."""

import inspect

import pytest

from sklearn_crt.extend import BaseFeatureSampler

from . import test_package

ESTIMATORS = [
    cls
    for cls in test_package.ESTIMATORS
    if hasattr(cls, "fit") and not inspect.isabstract(cls)
]
assert len(ESTIMATORS) == 28, ESTIMATORS


def described(cls, section):
    """Return the names that a section of a docstring describes."""
    doc = inspect.getdoc(cls).splitlines()
    lines = doc[doc.index(section) + 2 :] if section in doc else []
    names = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"}:  # the next section
            break
        if line and not line[0].isspace():
            names.append(line.partition(" :")[0])
    return names


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_all_parameters_are_described_in_the_order_of_the_constructor(cls):
    assert described(cls, "Parameters") == list(inspect.signature(cls).parameters)
    attributes = described(cls, "Attributes")
    assert len(attributes) == len({*attributes})
    assert {"n_features_in_", "feature_names_in_"} <= {*attributes}


class Described(BaseFeatureSampler):
    """A sampler that describes one of the shared parameters, and one of its own.

    Parameters
    ----------
    own : int, default=0
        A parameter of its own.
    sigma : float, default=2.0
        Another description.

    See Also
    --------
    OPRFSampler : A sampler.
    """

    def __init__(self, *, sigma=2.0, own=0, n_jobs=None):
        self.sigma, self.own, self.n_jobs = sigma, own, n_jobs


def test_a_docstring_is_completed_by_that_of_the_base_class():
    assert described(Described, "Parameters") == ["sigma", "own", "n_jobs"]
    doc = inspect.getdoc(Described)
    assert "sigma : float, default=2.0\n    Another description.\nown : int" in doc
    assert "n_jobs : int, default=None\n    Number of threads" in doc
    assert doc.index("symmetric_ : bool") < doc.index("See Also")
    assert doc.endswith("OPRFSampler : A sampler.")


def test_parameters_that_are_described_together_stay_together():
    class Together(BaseFeatureSampler):
        """A sampler.

        Parameters
        ----------
        sigma, own : float
            Two parameters.
        """

        def __init__(self, *, random_state=None, sigma=1.0, own=1.0, n_jobs=None):
            self.sigma, self.own, self.n_jobs = sigma, own, n_jobs

    parameters = described(Together, "Parameters")
    assert parameters == ["random_state", "sigma, own", "n_jobs"]


def test_what_is_not_written_as_a_parameter_is_kept():
    class Odd(BaseFeatureSampler):
        """A sampler.

        Parameters
        ----------

            There is one.
        """

        def __init__(self, *, n_jobs=None):
            self.n_jobs = n_jobs

    assert described(Odd, "Parameters") == ["n_jobs"]
    assert "\n\n    There is one.\n\nAttributes\n" in Odd.__doc__


def test_a_docstring_without_sections_stays_as_it_is():
    class Plain(Described):
        """One sentence."""

    class Silent(Described):
        pass

    assert Plain.__doc__ == "One sentence."
    assert "__doc__" not in vars(Silent) or Silent.__doc__ is None
