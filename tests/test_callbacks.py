"""scikit-learn's callbacks see each step of a pipeline, and each chunk of rows."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler

pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")


class Recorder:
    """Collects the tasks that end."""

    def __init__(self):
        self.ended = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.ended.append((type(estimator).__name__, context.task_name))


def test_chunks_of_rows_are_steps(rng):
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, 2, size=5000)
    recorder = Recorder()
    sampler = OPRFSampler(n_components=1000, random_state=0)
    NadarayaWatsonClassifier(sampler).set_callbacks(recorder).fit(X, y)
    assert recorder.ended.count(("NadarayaWatsonClassifier", "rows")) > 10
    assert recorder.ended[-1] == ("NadarayaWatsonClassifier", "fit")


def test_steps_of_a_pipeline_support_callbacks(rng):
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 2
    steps = StandardScaler(), OPRFSampler(), NadarayaWatsonClassifier("linear")
    recorder = Recorder()
    with warnings.catch_warnings(action="error"):
        make_pipeline(*steps).set_callbacks(recorder).fit(X, y)
    assert ("Pipeline", "fit-transform-oprfsampler") in recorder.ended
