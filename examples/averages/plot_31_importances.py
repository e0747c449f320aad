"""
Which columns are important?
============================

This example compares the weights of the columns in a learned metric with the
permutation importances of gradient boosting.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sklearn_crt import LearnedMetric, LocalLinearRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True)
parts = train_test_split(X, y, test_size=0.3, random_state=0)
X_train, X_test, y_train, y_test = parts
model = make_pipeline(LearnedMetric(random_state=0), LocalLinearRegressor())
boosting = HistGradientBoostingRegressor(random_state=0)
for each in (model, boosting):
    print(f"R2 {each.fit(X_train, y_train).score(X_test, y_test):.2f}")

# %%
# ``feature_importances_`` contains the diagonal of the metric for standardised columns.
# It shows how much the target changes along each column. Permutation importance answers
# a different question: how much worse do the predictions become if a column is
# shuffled?
metric = model[0].feature_importances_
shuffled = [
    permutation_importance(each, X_test, y_test, n_repeats=5, random_state=0)
    for each in (model, boosting)
]
names = {"metric": metric}
for name, found in zip(("metric and local linear", "boosting"), shuffled, strict=True):
    means = np.maximum(found.importances_mean, 0)
    names[f"permutation, {name}"] = means / means.sum()
order, height = np.argsort(metric), np.arange(X.shape[1])
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for k, (name, values) in enumerate(names.items()):
    ax.barh(height + 0.27 * (1 - k), values[order], height=0.25, label=name)
ax.set_yticks(height, X.columns[order])
ax.set(xlabel="proportion of the importance", ylabel="column")
ax.legend()
plt.show()
