"""
What do Gram matrices of random features look like?
===================================================

The inner products of random features are noisy estimates of the kernel. With more
features, the matrix of all inner products approaches the exact Gram matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler

# %%
# The rows are 100 points from three groups on a line, in order. R is the number of
# random frequencies, each of which has the two features cosine and sine. The title
# contains the root mean square error over all pairs of rows.
rng = np.random.default_rng(0)
centers = np.repeat([-2.0, 0.5, 2.5], [30, 40, 30])
X = np.sort(centers + 0.5 * rng.normal(size=100))[:, None]
exact = TrigRBFSampler(sigma=1.0).fit(X).exact_kernel(X)

figure, axes = plt.subplots(
    1, 4, figsize=(12, 3.4), layout="constrained", sharex=True, sharey=True
)
for ax, R in zip(axes, (10, 100, 1000), strict=False):
    sampler = TrigRBFSampler(
        sigma=1.0, n_components=2 * R, coupling="iid", random_state=0
    )
    features = sampler.fit_transform(X)
    gram = features @ features.T
    error = np.sqrt(np.mean((gram - exact) ** 2))
    ax.imshow(gram, vmin=-0.2, vmax=1)
    ax.set_title(f"R = {R}, error {error:.3f}")
image = axes[-1].imshow(exact, vmin=-0.2, vmax=1)
axes[-1].set_title("exact")
for ax in axes:
    ax.set(xticks=[], yticks=[], xlabel="row")
axes[0].set_ylabel("row")
figure.colorbar(image, ax=axes, label="kernel")
plt.show()

# %%
# Averaged over many draws, the error decreases like one over the square root of R. With
# R = 10, distant groups seem to be related; with R = 1000, the matrix is hardly
# different from the exact one.
