"""
For which sequence lengths is linear attention faster?
======================================================

Exact attention computes a score for each pair of rows, whereas linear attention
accumulates sums of features. This example compares the time and the memory of both for
an increasing number of rows.
"""

import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler
from sklearn_crt.attention import linear_attention, softmax_attention

# %%
# One attention head is computed by NumPy in float32. Keys and values have the
# dimensions d = e = 64, and there are m = 256 features. All times are processor times.
# ``python -m benchmarks.attention`` runs the comparison for up to 65536 rows and also
# for torch.
D, M = 64, 256
lengths = [256, 512, 1024, 2048, 4096]
q, k, v = 0.3 * np.random.default_rng(0).standard_normal((3, lengths[-1], D), "float32")
sampler = OPRFSampler(sigma=D**-0.25, kernel="softmax", n_components=M, random_state=0)
sampler.fit(q, X_key=k)
attentions = {
    "exact": lambda *rows: softmax_attention(*rows),
    "linear": lambda *rows: linear_attention(*rows, sampler),
    "linear, causal": lambda *rows: linear_attention(*rows, sampler, causal=True),
}


def measure(function, n):
    rows = [array[:n] for array in (q, k, v)]
    tracemalloc.start()
    function(*rows)
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        function(*rows)
        seconds.append(time.process_time() - start)
    return min(seconds), memory


figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, function in attentions.items():
    curves = np.array([measure(function, n) for n in lengths]).T
    for ax, curve in zip(axes, curves, strict=True):
        ax.loglog(lengths, curve, marker="o", label=name, base=2)
equal = M * (2 * D + 2 * (D + 1)) / (2 * D)
axes[0].axvline(equal, color="grey", linestyle=":", label="equal multiplications")
axes[0].legend()
for ax, label in zip(axes, ("processor seconds", "MB beside q, k, v"), strict=True):
    ax.set(xlabel="rows", ylabel=label)
    ax.grid(alpha=0.3)

# %%
# The dotted line marks the sequence length for which both methods need the same number
# of multiplications, which is about 2 m.
plt.show()
