"""
Which columns determine a prediction?
=====================================

This example fits a ridge regression to a raw table with a categorical column, and plots
the largest effects of the columns on the predicted progression of diabetes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sklearn_crt import AnovaSampler, RandomFeatureRidge
from sklearn_crt.tables import EffectsDisplay

# %%
# The data are the diabetes data of scikit-learn, in their original units. The column
# ``sex`` is a category.
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X["sex"] = X["sex"].map({1.0: "first", 2.0: "second"})

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
# first row of the test set.
places = [["a", "b", "c", "row"], ["d", "e", "f", "row"]]
figure, axes = plt.subplot_mosaic(places, figsize=(15, 6), layout="constrained")
panels = [axes[place] for place in "abcdef"]
EffectsDisplay.from_estimator(model, X_test, n_effects=6, ax=panels)
EffectsDisplay.from_estimator(model, X_test, row=0, n_effects=10, ax=axes["row"])
plt.show()
