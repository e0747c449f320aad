"""Refuse figures of the gallery that are shown before they are finished.

A figure is caught at the end of the cell that made it. What a later cell adds to it,
the labels of its axes for instance, is lost without a word; so a figure with an axis
that has no label is a warning, and warnings are errors.
"""

import matplotlib.pyplot as plt
from sphinx.util.logging import getLogger
from sphinx_gallery.scrapers import matplotlib_scraper

logger = getLogger(__name__)


def unlabelled(figure):
    """Return the names of axes without a label; shared axes need one among them.

    And so do the two of a colour bar.
    """
    missing = []
    for name in "xy":
        for ax in figure.axes:
            if ax.get_label() == "<colorbar>" and (ax.get_xlabel() or ax.get_ylabel()):
                continue
            shared = getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax)
            if not any(getattr(other, f"get_{name}label")() for other in shared):
                missing.append(f"{name} of axes {figure.axes.index(ax)}")
    return missing


def scrape(block, block_vars, gallery_conf):
    """Save the figures of a cell as sphinx-gallery does, and judge them."""
    for number in plt.get_fignums():
        missing = unlabelled(plt.figure(number))
        if missing:
            source = block_vars["src_file"]
            logger.warning("%s: no label for %s", source, ", ".join(missing))
    return matplotlib_scraper(block, block_vars, gallery_conf)


def setup(app):
    """Make this module an extension, so that its name can be imported."""
    return {"parallel_read_safe": True}
