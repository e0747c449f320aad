"""How far estimates are from the kernel: asked for before, or measured after."""

from ._compare import Comparison, compare_samplers
from ._n_components import n_components_for

__all__ = ["Comparison", "compare_samplers", "n_components_for"]
