"""What pairs of frequencies of one block save of the variance, in closed form."""

from ._gaussian import log_conformity, positive_gap, trigonometric_gap
from ._scale_mixtures import stable_gap, student_gap
from ._signs import angles, orthogonal_sign_moment

__all__ = [
    "angles",
    "log_conformity",
    "orthogonal_sign_moment",
    "positive_gap",
    "stable_gap",
    "student_gap",
    "trigonometric_gap",
]
