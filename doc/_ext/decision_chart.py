"""The decision chart: ``.. decision-chart::`` draws TREE as an SVG image with links.

The SVG is part of the page, so that its colours follow the theme. It is drawn twice,
from left to right, and from top to bottom for narrow screens; custom.css shows one of
them. Each answer contains a line of code, which is executed while the page is built.
"""

from html import escape
from textwrap import wrap

import numpy as np
import sklearn.pipeline
import sklearn.preprocessing
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import sklearn_crt
import sklearn_crt.tables
from sklearn_crt.attention import coreset_attention

# for each task its page, and for each case the recommended name, a line of code, a page
TREE = {
    "Features for a linear model": (
        "user_guide/linear_models",
        {
            "up to 1000 features": (
                "CentersRBFSampler",
                "CentersRBFSampler(n_components=500)",
                "user_guide/linear_models",
            ),
            "more than 1000 features": (
                "TrigRBFSampler",
                "TrigRBFSampler(n_components=2000)",
                "user_guide/trig_rbf",
            ),
            "targets with steps or peaks": (
                "MaternSampler",
                "MaternSampler(nu=1.5, n_components=2000)",
                "user_guide/radial",
            ),
        },
    ),
    "Positive features": (
        "user_guide/oprf",
        {
            "the lowest error": (
                "DERFSampler",
                'DERFSampler(coupling="antithetic")',
                "user_guide/derf",
            ),
            "many columns or few rows": (
                "OPRFSampler",
                "OPRFSampler()",
                "user_guide/oprf",
            ),
            "a narrow kernel": (
                "AnchoredRBFSampler",
                "AnchoredRBFSampler()",
                "user_guide/anchored",
            ),
        },
    ),
    "Predict from similar rows (numbers only)": (
        "user_guide/nadaraya_watson",
        {
            "averages of targets, up to 20,000 rows": (
                "NadarayaWatsonRegressor",
                "NadarayaWatsonRegressor(metric=LearnedMetric())",
                "user_guide/nadaraya_watson",
            ),
            "the most accurate, up to 20,000 rows": (
                "LocalLinearRegressor",
                "LocalLinearRegressor(metric=LearnedMetric())",
                "user_guide/local_linear",
            ),
            "more rows, or fast predictions": (
                "Prototypes",
                "NadarayaWatsonRegressor(Prototypes())",
                "generated/sklearn_crt.Prototypes",
            ),
        },
    ),
    "Predict with intervals from many rows": (
        "user_guide/ridge",
        {
            "only numbers, also in batches or on several machines": (
                "RandomFeatureRidge",
                "make_pipeline(StandardScaler(), RandomFeatureRidge())",
                "user_guide/ridge",
            ),
            "categories or missing values": (
                "AnovaSampler",
                "RandomFeatureRidge(AnovaSampler())",
                "user_guide/tables",
            ),
        },
    ),
    "Predict from a table of any kind": (
        "user_guide/tables",
        {
            "up to 10,000 rows": (
                "TableRegressor",
                "TableRegressor()",
                "user_guide/tables",
            ),
        },
    ),
    "Attention": (
        "user_guide/attention",
        {
            "long sequences, both directions": (
                "coreset_attention",
                "coreset_attention(q, k, v, n_points=128)",
                "generated/sklearn_crt.attention.coreset_attention",
            ),
            "causal, or one token at a time": (
                "DERFSampler",
                'DERFSampler(kernel="softmax", coupling="antithetic")',
                "user_guide/attention",
            ),
        },
    ),
}
NAMES = {}
for module in (
    sklearn.pipeline,
    sklearn.preprocessing,
    sklearn_crt,
    sklearn_crt.tables,
):
    NAMES |= {name: getattr(module, name) for name in module.__all__}
NAMES["coreset_attention"] = coreset_attention
NAMES |= dict.fromkeys("qkv", np.random.default_rng(0).normal(size=(200, 4)))

LINE, GAP, CODE = 17, 9, 47  # line height, gap between boxes, width of code


class Drawing:
    """An SVG image that is built from boxes, lines and text."""

    label = "Decision chart: a sampler or an estimator for each task"

    def __init__(self, width, uri_of):
        self.width, self.uri_of = width, uri_of
        self.parts = []

    def words(self, x, y, lines, kind):
        """Write lines of text from y downwards; return the height below them."""
        for line in lines:
            y += LINE
            text = escape(line).replace(" ", "\N{NO-BREAK SPACE}")
            self.parts.append(f'<text class="{kind}" x="{x}" y="{y - 4}">{text}</text>')
        return y

    def box(self, x, y, width, target, kind, *texts):
        """Draw a box with lines of text that is a link; return its lower end."""
        self.parts.append(f'<a class="{kind}" href="{self.uri_of(target)}">')
        place = len(self.parts)
        end = y + 4
        for text_kind, lines in texts:
            end = self.words(x + 10, end, lines, text_kind)
        end += 6
        size = f'width="{width}" height="{end - y}"'
        self.parts.insert(place, f'<rect x="{x}" y="{y}" {size} rx="6"/>')
        self.parts.append("</a>")
        return end

    def answer(self, x, y, name, code, target):
        """Draw the box of an answer; return the height of its end."""
        lines = wrap(code, CODE, subsequent_indent="    ", break_on_hyphens=False)
        texts = ("name", [name]), ("code", lines)
        return self.box(x, y, self.width - x - 1, target, "answer", *texts)

    def line(self, *points):
        """Draw a line through the points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f'<polyline points="{path}"/>')

    def svg(self, kind, height):
        """Return the SVG element."""
        size = f'viewBox="0 0 {self.width} {height}"'
        label = f'role="group" aria-label="{self.label}"'
        body = "".join(self.parts)
        return f'<svg class="crt-chart {kind}" {size} {label}>{body}</svg>'


def wide(uri_of):
    """Return the chart from left to right: task, case, answer."""
    drawing, y = Drawing(780, uri_of), 1
    for task, (page, cases) in TREE.items():
        start, middles = y, []
        for case, answer in cases.items():
            end = drawing.answer(400, y, *answer)
            lines = wrap(case, 25)
            middle = (y + end) / 2
            drawing.words(205, middle - len(lines) * LINE / 2, lines, "case")
            middles.append(middle)
            drawing.line((385, middle), (400, middle))
            y = end + GAP
        lines = wrap(task, 17)
        height = 10 + len(lines) * LINE
        middle = (start + y - GAP) / 2
        drawing.box(1, middle - height / 2, 160, page, "task", ("name", lines))
        drawing.line((161, middle), (180, middle))
        for place in middles:
            drawing.line((180, middle), (180, place), (198, place))
        y += GAP
    return drawing.svg("wide", y - GAP)


def narrow(uri_of):
    """Return the chart from top to bottom."""
    drawing, y = Drawing(370, uri_of), 1
    for task, (page, cases) in TREE.items():
        top = end = drawing.box(1, y, 368, page, "task", ("name", [task]))
        for case, answer in cases.items():
            y = drawing.words(24, end + 4, [case], "case")
            end = drawing.answer(24, y, *answer)
            drawing.line((12, top), (12, (y + end) / 2), (24, (y + end) / 2))
        y = end + 2 * GAP
    return drawing.svg("narrow", y - GAP)


class DecisionChart(SphinxDirective):
    """The directive."""

    def run(self):
        """Return both drawings; the style sheet shows one of them."""
        for _, cases in TREE.values():
            for _, code, _ in cases.values():
                eval(code, dict(NAMES))
        return [nodes.raw("", wide(self.uri) + narrow(self.uri), format="html")]

    def uri(self, target):
        """Return the address of a page relative to the current one."""
        if target not in self.env.found_docs:
            raise self.error(f"The chart links to {target}, and there is no such page.")
        return self.env.app.builder.get_relative_uri(self.env.docname, target)


def setup(app):
    """Add the directive."""
    app.add_directive("decision-chart", DecisionChart)
    return {"parallel_read_safe": True}
