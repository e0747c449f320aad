"""
How fast are calibrated probabilities from 50,000 rows?
=======================================================

What is the probability that a matrix product takes less than the median time? Predicted
probabilities are calibrated if, for example, seven out of ten rows with a predicted
probability of 70 % belong to the class.
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
# The sgemm data from UCI contain 14 settings of a program and its running time. If this
# data set is neither on this machine nor available for download, generated data are
# used instead.
try:
    table = fetch_uci("sgemm")
    X, times = table.data.astype(np.float32), table.target
except OSError:
    X, times = make_friedman1(60_000, n_features=14, noise=2, random_state=0)
fast = times < np.median(times)
parts = train_test_split(X, fast, train_size=50_000, test_size=4000, random_state=0)
X_train, X_test, y_train, y_test = parts

# %%
# A kernel average is the weighted proportion of a class among the neighbours of a row,
# so it is a probability. Its accuracy depends on which rows are neighbours, that is, on
# the metric, which ``LearnedMetric`` learns from the targets. The scores of a
# least-squares classifier are not probabilities, but scikit-learn's
# ``CalibratedClassifierCV`` computes probabilities from them.
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
left.set(xlabel="predicted probability", ylabel="observed proportion")
right.set(xlabel="processor seconds", ylabel="log loss (lower is better)")
right.margins(x=0.1)
right.set(xlim=(0, None), ylim=(0, 0.7))  # random guessing has 0.69
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)
right.set_title("50,000 training and 4000 test rows")
plt.show()

# %%
# Left: a model is calibrated if its curve is close to the dotted line. A curve is noisy
# where few test rows have such a predicted probability. On sgemm, the probabilities of
# boosting are not extreme enough: the observed proportion is below a low predicted
# probability and above a high one. Right: calibrated probabilities are not necessarily
# informative. If two models are calibrated, the one with the lower log loss predicts
# probabilities that are closer to 0 and 1.
