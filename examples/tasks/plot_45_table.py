"""
What decides the price of a house?
==================================

This example fits a ridge regression to a raw table with categories and missing values,
and plots the largest effects of the columns.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sklearn_crt import AnovaSampler, RandomFeatureRidge
from sklearn_crt.tables import EffectsDisplay

# %%
# The house prices of Ames (73 columns, 40 of them categories) are read from the folder
# given by the environment variable ``SKLEARN_CRT_DATA``. If the file is not found, the
# diabetes data of scikit-learn are used instead.
folders = os.environ.get("SKLEARN_CRT_DATA", "").split(os.pathsep)
paths = [Path(folder, "mixed", "ames.csv.gz") for folder in folders if folder]
path = next((path for path in paths if path.exists()), None)
if path is None:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X["sex"] = X["sex"].map({1.0: "first", 2.0: "second"})
else:
    X = pd.read_csv(path, keep_default_na=False, na_values=["NA", ""])
    y = np.log10(X.pop("Sale_Price"))
    X = X.drop(columns="rownames")

# %%
# The table is passed to the model without any preprocessing.
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = RandomFeatureRidge(AnovaSampler(order=2, random_state=0)).fit(X_train, y_train)
low, high = model.predict_interval(X_test, coverage=0.9).T
inside = np.mean((low <= y_test) & (y_test <= high))
print(f"R2 {model.score(X_test, y_test):.2f}, {inside:.0%} within intervals of 90 %")

# %%
# Each prediction is a sum of effects of single columns and of pairs of columns. Left:
# the largest effects. Bands show two standard deviations on each side, and are wider
# where there are few rows. Right: the effects that add up to the prediction for the
# first house in the test set.
places = [["a", "b", "c", "row"], ["d", "e", "f", "row"]]
figure, axes = plt.subplot_mosaic(places, figsize=(15, 6), layout="constrained")
panels = [axes[place] for place in "abcdef"]
EffectsDisplay.from_estimator(model, X_test, n_effects=6, ax=panels)
EffectsDisplay.from_estimator(model, X_test, row=0, n_effects=10, ax=axes["row"])
plt.show()
