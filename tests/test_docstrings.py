"""Each public class describes its parameters and attributes in its own source."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from . import test_package

CLASSES = [
    cls
    for cls in test_package.ESTIMATORS
    if hasattr(cls, "fit") and not inspect.isabstract(cls)
]
assert len(CLASSES) == 29, CLASSES

# Parameters and attributes whose text differs between classes, and why. All others have
# the same text in each class that has them.
DIFFERS = {
    "A_": "a number, a vector or a matrix, depending on the family of the map",
    "a_": "the base of the counts, of each discrete law",
    "alpha": "the exponent of a kernel, or the penalty of ridge or local linear fits",
    "alpha_": "as alpha",
    "calibrate": "what the probabilities are without calibration",
    "center": "positive maps shift rows; prototypes are groups of rows",
    "center_": "as center",
    "class_count_": "counts of rows, or of weights in models for raw tables",
    "class_prior_": "as class_count_",
    "class_weight": "which part of a fit uses the class weights",
    "clip": "ridge shrinks predictions, local linear fits limit them",
    "coef_": "ridge has one per feature, a hybrid one per base",
    "coupling": "which couplings a mechanism accepts, and its default",
    "default": "for pairs without a map, or with the remaining weight",
    "feature_importances_": "of a kernel, a metric or a blend",
    "intercept_": "regression and classification",
    "kernel": "what the estimator accepts as its kernel",
    "kernel_": "as kernel",
    "loo_errors_": "squared errors or log losses",
    "n_coefficients": "a number, or what the coefficients have",
    "n_components": "how features are paired, and the default of the estimator",
    "n_jobs": "threads of transform, or processes of folds",
    "phase_": "of one map, or of each base",
    "positive": "of monomials, or of coefficients",
    "random_state": "what is random in the fit",
    "shape_matrix": "a vector or a matrix",
    "sigma": "how it is chosen when it is not a number",
    "sigma_": "as sigma",
}


def source_of(cls):
    """Return the docstring of a class, as an editor finds it in the source."""
    tree = ast.parse(Path(inspect.getsourcefile(cls)).read_text())
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    assert len(found) == 1
    return ast.get_docstring(found[0]) or ""


def described(doc, section):
    """Return the entries of a section as a dictionary from names to descriptions."""
    pattern = rf"(?ms)^{section}\n-+\n(.*?)(?=^\w[^\n]*\n--|\Z)"
    found = re.search(pattern, doc)
    _, *parts = re.split(r"(?m)^(\w+(?:, \w+)*) : ", found[1] if found else "")
    entries = zip(parts[::2], map(str.strip, parts[1::2]), strict=True)
    return {name: text for names, text in entries for name in names.split(", ")}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_source_describes_the_signature(cls):
    doc = source_of(cls)
    assert inspect.cleandoc(cls.__doc__).strip() == doc.strip()  # nothing is added
    parameters = described(doc, "Parameters")
    assert [*parameters] == [*inspect.signature(cls).parameters]
    for name, text in parameters.items():
        kind, _, description = text.partition("\n")
        assert kind, name
        assert len(description.split()) > 2, name
    attributes = described(doc, "Attributes")
    assert {"n_features_in_", "feature_names_in_"} <= {*attributes}


def test_shared_names_have_one_text():
    texts = {}
    for cls in CLASSES:
        for section in ("Parameters", "Attributes"):
            for name, text in described(source_of(cls), section).items():
                texts.setdefault(name, set()).add(text)
    assert len(texts) > 60
    assert {name for name, each in texts.items() if len(each) > 1} == {*DIFFERS}
