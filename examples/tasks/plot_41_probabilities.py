"""
Probabilities of classes, from 50,000 rows in seconds
=====================================================

Will this matrix product be faster than most? The answer is a probability, and it is
calibrated where of all rows with "70 %" seven in ten are.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    LearnedMetric,
    NadarayaWatsonClassifier,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.datasets import fetch_uci

# %%
# The table is sgemm of UCI, 14 settings of a program and how long it ran. Where it is
# neither on this machine nor to be downloaded, rows that are made up stand in.
try:
    table = fetch_uci("sgemm")
    X, times = table.data.astype(np.float32), table.target
except OSError:
    X, times = make_friedman1(60_000, n_features=14, noise=2, random_state=0)
fast = times < np.median(times)
parts = train_test_split(X, fast, train_size=50_000, test_size=4000, random_state=0)
X_train, X_test, y_train, y_test = parts

# %%
# A kernel average is the share of a class among the near rows, so it is a probability
# as it stands, and as sharp as the notion of "near" is good: ``LearnedMetric`` learns
# that first. Least squares know no probabilities, and scikit-learn's
# ``CalibratedClassifierCV`` makes some of their scores.
scale, metric = StandardScaler(), LearnedMetric(method="nca", random_state=0)
average = NadarayaWatsonClassifier()
features = TrigRBFSampler(n_components=512, random_state=0)
ridge = RandomFeatureRidgeClassifier(features)
calibrated = CalibratedClassifierCV(ridge, cv=3, ensemble=False)
models = {
    "average": make_pipeline(scale, average),
    "metric, average": make_pipeline(metric, average),
    "metric, calibrated ridge": make_pipeline(metric, calibrated),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
left.plot([0, 1], [0, 1], color="black", linestyle=":", label="calibrated")
for name, model in models.items():
    start = time.process_time()
    found = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    seconds = time.process_time() - start
    loss, share = log_loss(y_test, found), np.mean((found > 0.5) == y_test)
    print(f"{name}: {seconds:.1f} s, {share:.1%} right, log loss {loss:.3f}")
    shares, stated = calibration_curve(y_test, found, n_bins=8)
    left.plot(stated, shares, "o-", markersize=4, label=name)
    right.plot(seconds, loss, "o", markersize=10)
left.set(xlabel="probability that was stated", ylabel="share that was fast")
right.set(xlabel="processor seconds", ylabel="log loss, less is better")
right.margins(x=0.1)
right.set(xlim=(0, None), ylim=(0, 0.7))  # a coin has 0.69
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)
right.set_title("50,000 rows to learn, 4000 to answer")
plt.show()

# %%
# Left: what is near the dotted line is calibrated. The average without a metric is too
# cautious: where it says 30 % fewer are, and where it says 70 % more, since many of the
# rows near to it are not alike. Right: to be calibrated is not yet to be sharp. Lower
# points have probabilities that come closer to 0 and 1, rightly.
