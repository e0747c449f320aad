"""Where a warning points: the line of the user's code, not one of this package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import sklearn

_INSIDE = (
    str(Path(__file__).parents[1]),
    str(Path(sklearn.__file__).parent),
)


def outside_stacklevel() -> int:
    """Return the ``stacklevel`` of the first caller outside of the package.

    Frames of scikit-learn, which wraps ``fit`` and clones samplers, are passed over.

    Returns
    -------
    stacklevel : int
        For ``warnings.warn`` in the function that calls this one.
    """
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return level
