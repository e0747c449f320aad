"""
How is the penalty chosen in a stream of a million rows?
========================================================

Each batch of rows is read once and not stored. The model keeps the Gram matrix of the
features, from which the coefficients for every penalty can be computed. The best
penalty can therefore be chosen again at any time, which takes about as long as adding a
batch.
"""

import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.frozen import FrozenEstimator
from tqdm import tqdm

from sklearn_crt import RandomFeatureRidge, TrigRBFSampler

# %%
# The batches are generated when they are needed, as if they came from a file or a
# network. They have ten columns, and half of the variance of the target is noise. The
# sampler is fitted to the first batch and then stays the same, so no rows have to be
# stored. ``alpha_`` and ``loo_errors_`` need a single eigendecomposition for all 31
# penalties, and no second pass over the rows. For each penalty, ``Ridge`` would need
# all rows again, and ``SGDRegressor`` would have to start from the beginning, as
# described in `scikit-learn's issue 33914
# <https://github.com/scikit-learn/scikit-learn/issues/33914>`_.
N_ROWS, N_BATCH, N_COLUMNS = 1_000_000, 2000, 256
X_test, y_test = make_friedman1(5000, noise=0, random_state=1_000_000)
sampler = TrigRBFSampler(n_components=N_COLUMNS, random_state=0)
sampler.fit(make_friedman1(N_BATCH, random_state=1)[0].astype(np.float32))
penalties = np.logspace(-4, 5, 31)
model = RandomFeatureRidge(FrozenEstimator(sampler), alpha=penalties)
seen, errors, chosen, excess, memory = [], [], [], [], []
tracemalloc.start()
for k in tqdm(range(1, N_ROWS // N_BATCH + 1), mininterval=0, miniters=100, ncols=70):
    X, y = make_friedman1(N_BATCH, noise=5, random_state=k)
    model.partial_fit(X.astype(np.float32), y)
    if k.bit_count() == 1 or k == N_ROWS // N_BATCH:  # at 1, 2, 4, 8 ...
        seen.append(k * N_BATCH)
        memory.append(tracemalloc.get_traced_memory()[1] / 2**20)
        errors.append(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
        chosen.append(model.alpha_)
        scores = model.loo_errors_[0]
        excess.append(100 * (scores / scores.min() - 1))
tracemalloc.stop()
start = time.process_time()
model.partial_fit(X.astype(np.float32), y)
middle = time.process_time()
model.loo_errors_  # computed now
end = time.process_time()
print(f"a batch: {middle - start:.3f} s, its penalties: {end - middle:.3f} s")

# %%
# Left: the error of the predictions, measured on targets without noise. Middle: in the
# white region, the expected error, which is in ``loo_errors_``, is close to the
# minimum. If there are few rows, both small and large penalties increase the error. If
# there are many rows, all small penalties are equally good. Right: the peak memory soon
# stops growing with the number of rows.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained")
axes[0].semilogx(seen, errors, "o-")
axes[0].set(ylabel="root mean squared error", ylim=(0, None))
options = {"cmap": "Blues", "vmin": 0, "vmax": 5}
shades = axes[1].pcolormesh(seen, penalties, np.transpose(excess), **options)
axes[1].loglog(seen, chosen, "o-", color="red", label="chosen")
axes[1].set(ylabel="penalty")
figure.colorbar(shades, ax=axes[1]).set_label("expected error above the minimum (%)")
features = 4 * np.array(seen) * N_COLUMNS / 2**20
axes[2].loglog(seen, features, ":", color="black", label="features of all rows")
axes[2].loglog(seen, memory, "o-", label="peak memory")
axes[2].set(ylabel="MB")
for ax in axes:
    ax.set(xlabel="number of rows")
for ax in axes[1:]:
    ax.legend(loc="upper left")
plt.show()
