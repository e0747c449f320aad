"""The map of samplers: ``.. sampler-map::`` draws FAMILIES as an SVG image with links.

As in Figure 1 of *Chefs' Random Tables*, features are grouped by the function that
computes them and by their sign. The colour of a box shows its source. The SVG is part
of the page, so that its colours follow the theme. It is drawn twice, for wide and for
narrow screens; custom.css shows one of them.
"""

from textwrap import wrap

from decision_chart import LINE, Drawing
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import sklearn_crt

BOTH = "Gaussian, softmax"
POSITIVE = f"{BOTH} (positive=True)"
SOURCES = {
    "crt": "Chefs' Random Tables",
    "simplex": "Simplex Random Features",
    "hybrid": "Hybrid Random Features",
    "laplacian": "Feature maps for the Laplacian kernel",
    "other": "other papers, and this package",
}
# for each family the samplers whose features can be negative, and the positive ones:
# name, kernel, source and page
FAMILIES = {
    "Sines, cosines and exponential functions of Gaussian projections": (
        [
            ("TrigRBFSampler", BOTH, "other", "trig_rbf"),
            ("GERFSampler", BOTH, "crt", "gerf"),
            ("ComplexExponentialSampler", BOTH, "hybrid", "hybrid"),
        ],
        [
            ("OPRFSampler", BOTH, "crt", "oprf"),
            ("PositiveRBFSampler", BOTH, "other", "positive_rbf"),
            ("SimplexRBFSampler", BOTH, "simplex", "simplex_rbf"),
            ("DERFSampler", BOTH, "other", "derf"),
        ],
    ),
    "Monomials with random exponents": (
        [
            ("PoissonSampler", BOTH, "crt", "poisson"),
            ("GeometricSampler", BOTH, "crt", "geometric"),
        ],
        [
            ("PoissonSampler", POSITIVE, "crt", "poisson"),
            ("GeometricSampler", POSITIVE, "crt", "geometric"),
        ],
    ),
    "Products and sums of other features": (
        [
            ("HybridSampler", BOTH, "hybrid", "hybrid"),
            ("ClusteredSampler", BOTH, "hybrid", "hybrid"),
            ("GaussianMixtureSampler", BOTH, "hybrid", "hybrid"),
        ],
        [("GaussianMixtureSampler", POSITIVE, "hybrid", "hybrid")],
    ),
    "Random Fourier features with heavy-tailed frequencies": (
        [
            ("LaplacianSampler", "Laplacian", "laplacian", "radial"),
            ("MaternSampler", "Matérn", "laplacian", "radial"),
            ("ExponentialPowerSampler", "exponential power", "laplacian", "radial"),
        ],
        [],
    ),
    "Kernel values at points": (
        [("CentersRBFSampler", "Gaussian", "other", "linear_models")],
        [("AnchoredRBFSampler", BOTH, "other", "anchored")],
    ),
    "Effects of columns and of pairs of columns": (
        [("AnovaSampler", "ANOVA", "other", "tables")],
        [],
    ),
}
SIGNS = "positive and negative features", "positive features"
HEIGHT = 2 * LINE + 10  # of a box


class Map(Drawing):
    """Boxes of samplers, in the colours of their sources."""

    label = "Map of samplers by function, sign and source"

    def sampler(self, x, y, width, name, kernel, source, page):
        """Draw the box of a sampler."""
        texts = ("name", [name]), ("case", [kernel])
        self.box(x, y, width, f"user_guide/{page}", f"source-{source}", *texts)

    def legend(self, y, columns):
        """Explain the colours; return the height below."""
        step = (self.width - 2) // columns
        for k, (source, text) in enumerate(SOURCES.items()):
            x, top = 1 + step * (k % columns), y + LINE * 1.3 * (k // columns)
            size = 'width="12" height="12" rx="3"'
            rect = f'<rect x="{x}" y="{top}" {size}/>'
            self.parts.append(f'<g class="source-{source}">{rect}</g>')
            self.words(x + 18, top - 2, [text], "case")
        return y + LINE * 1.3 * -(-len(SOURCES) // columns)


def wide(uri_of):
    """Return the map with one column for each sign."""
    drawing, width, y = Map(780, uri_of), 285, 1
    places = 185, 490
    for x, sign in zip(places, SIGNS, strict=True):
        drawing.words(x, y, [sign], "name")
    y += LINE + 8
    for family, columns in FAMILIES.items():
        lines = wrap(family, 21)
        for x, samplers in zip(places, columns, strict=True):
            for k, sampler in enumerate(samplers):
                drawing.sampler(x, y + k * (HEIGHT + 6), width, *sampler)
        n_boxes = max(map(len, columns))
        drawing.words(1, y, lines, "name")
        y += max(n_boxes * (HEIGHT + 6), len(lines) * LINE + 6)
        drawing.line((1, y + 4), (779, y + 4))
        y += 14
    return drawing.svg("wide", drawing.legend(y, 2) + 2)


def narrow(uri_of):
    """Return the map from top to bottom."""
    drawing, y = Map(370, uri_of), 1
    for family, columns in FAMILIES.items():
        y = drawing.words(1, y, wrap(family, 46), "name")
        for sign, samplers in zip(SIGNS, columns, strict=True):
            if samplers:
                y = drawing.words(14, y, [sign], "case") + 4
            for sampler in samplers:
                drawing.sampler(14, y, 355, *sampler)
                y += HEIGHT + 6
        y += 10
    return drawing.svg("narrow", drawing.legend(y, 1) + 2)


class SamplerMap(SphinxDirective):
    """The directive."""

    def run(self):
        """Return both drawings; the style sheet shows one of them."""
        for columns in FAMILIES.values():
            for name, *_ in (*columns[0], *columns[1]):
                getattr(sklearn_crt, name)  # raises an error if the name is unknown
        return [nodes.raw("", wide(self.uri) + narrow(self.uri), format="html")]

    def uri(self, target):
        """Return the address of a page relative to the current one."""
        if target not in self.env.found_docs:
            raise self.error(f"The map links to {target}, and there is no such page.")
        return self.env.app.builder.get_relative_uri(self.env.docname, target)


def setup(app):
    """Add the directive."""
    app.add_directive("sampler-map", SamplerMap)
    return {"parallel_read_safe": True}
