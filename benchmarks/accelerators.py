"""Features, ridge regression and attention on a GPU: python -m benchmarks.accelerators.

Each operation runs on float32 arrays of torch on ``--device``, beside a straightforward
implementation in torch, and attention also beside torch's fused exact attention. Median
milliseconds of interleaved repetitions by the clock, with arrays that are on the device
already. The last column is the largest difference from the result of NumPy for the same
arrays, relative to its largest value.

``--device cpu`` is a rehearsal on a machine without a GPU: there, NumPy processes the
arrays of torch, and the times say nothing about a GPU. ``--quick`` uses small arrays.
"""

import math
import os
import sys
import time
from functools import partial

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # read when SciPy is imported

import numpy as np
import sklearn
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

import sklearn_crt as crt
from sklearn_crt.attention import linear_attention

from .commands import Command
from .tables import Table, interleave, of_interleaved

try:
    import torch
except ImportError:
    torch = None

ALPHA, N_HEADS, D_HEAD, M_HEAD = 1.0, 8, 64, 256
QUICK = {"rows": 2000, "columns": 16, "features": 128, "length": 256}


# -------------------------------------------- what a user of torch alone would write
def trigonometric(X, W, sigma):
    """Return random Fourier features, with as many frequencies W as half of them."""
    phases = sigma * X @ W.T
    return torch.cat([phases.cos(), phases.sin()], dim=-1) / math.sqrt(len(W))


def positive(X, W, sigma, A=0.0, power=2):
    """Return positive features with the parameter A, each exp(. - power |x|^2 / 2)."""
    X, d = sigma * X, X.shape[-1]
    norms = power / 2 * (X * X).sum(-1, keepdim=True)
    exponents = math.sqrt(1 - 4 * A) * X @ W.T + A * (W * W).sum(-1) - norms
    return (1 - 4 * A) ** (d / 4) * exponents.exp() / math.sqrt(len(W))


def ridge(Z, y):
    """Return the coefficients and the intercept of ridge regression."""
    means, mean = Z.mean(0), y.mean()
    Z = Z - means
    gram = Z.T @ Z + ALPHA * torch.eye(Z.shape[1], device=Z.device)
    coef = torch.linalg.solve(gram, Z.T @ (y - mean))
    return coef, mean - means @ coef


def attention(q, k, v, W, A, causal):
    """Return linear attention, with sums over all keys or over the earlier ones."""
    scale = q.shape[-1] ** -0.25
    q, k = (positive(rows, W, scale, A, power=1) for rows in (q, k))
    if not causal:
        numerators, sums = q @ (k.transpose(-1, -2) @ v), k.sum(-2, keepdim=True)
        return numerators / (q * sums).sum(-1, keepdim=True)
    outputs, before, sums = [], torch.zeros_like(k[..., :1, :].mT), 0.0
    for i in range(0, q.shape[-2], 128):  # since all sums at once need too much memory
        part = slice(i, i + 128)
        f, g, values = q[..., part, :], k[..., part, :], v[..., part, :]
        weights = (f @ g.transpose(-1, -2)).tril()
        numerators = weights @ values + f @ before
        norms = weights.sum(-1, keepdim=True) + (f * sums).sum(-1, keepdim=True)
        outputs.append(numerators / norms)
        before = before + g.transpose(-1, -2) @ values
        sums = sums + g.sum(-2, keepdim=True)
    return torch.cat(outputs, -2)


# -------------------------------------------------------------------- measurements
class Device:
    """A device of torch, and the table of what was measured there."""

    def __init__(self, name, repeats):
        self.name, self.repeats, self.rows = name, repeats, []

    def array(self, values):
        """Return a float32 array there."""
        return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(self.name)

    def wait(self):
        """Wait until the device has finished."""
        if self.name != "cpu":
            torch.accelerator.synchronize()

    @property
    def card(self):
        """The name of the device, as its maker calls it."""
        if self.name.startswith("cuda"):
            return torch.cuda.get_device_name(self.name)
        return f"{self.name} (a rehearsal: NumPy processes these arrays)"

    def add(self, operation, expected, **functions):
        """Measure functions without arguments, and add a row to the table.

        Their names are ours, plain and, in some rows, exact; ``expected`` is the result
        of NumPy.
        """

        def finished(function):
            function()
            self.wait()

        calls = {key: partial(finished, call) for key, call in functions.items()}
        seconds = interleave(calls, self.repeats, time.perf_counter)
        found = torch.as_tensor(functions["ours"]()).cpu().numpy()
        apart = np.abs(found - expected).max() / np.abs(expected).max()
        names = "ours", "plain", "exact"
        cells = [f"{1e3 * seconds[n]:.3g}" if n in seconds else "–" for n in names]
        cells.insert(2, f"{seconds['plain'] / seconds['ours']:.2f}")
        self.rows.append([operation, *cells, f"{apart:.0e}" if apart else "none"])
        print(" | ".join(self.rows[-1]), flush=True)


def add_transforms(device, features, X):
    """Measure ``transform`` of the samplers."""
    rows, sigma = device.array(X), X.shape[1] ** -0.5
    for kind, plain in (
        (crt.OPRFSampler, positive),
        (crt.TrigRBFSampler, trigonometric),
    ):
        here = kind(sigma=sigma, n_components=features, random_state=0).fit(X)
        there = kind(sigma=sigma, n_components=features, random_state=0).fit(rows)
        n_frequencies = features if plain is positive else features // 2
        W = torch.randn(n_frequencies, X.shape[1], device=device.name)
        A = {"A": float(here.A_)} if plain is positive else {}
        device.add(
            f"``{kind.__name__}.transform``",
            here.transform(X),
            ours=partial(there.transform, rows),
            plain=partial(plain, rows, W, sigma, **A),
        )


def add_ridge(device, features, X):
    """Measure ``fit`` and ``predict`` of ridge regression on Fourier features."""
    rng, sigma = np.random.default_rng(1), X.shape[1] ** -0.5
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(len(X), dtype=np.float32)
    rows, targets = device.array(X), device.array(y)
    sampler = crt.TrigRBFSampler(sigma=sigma, n_components=features, random_state=0)
    # the only solver that scikit-learn has for arrays of torch
    model = make_pipeline(sampler, Ridge(ALPHA, solver="svd"))
    on_host = make_pipeline(sampler, Ridge(ALPHA, solver="cholesky"))
    expected = on_host.fit(X, y).predict(X)
    W = torch.randn(features // 2, X.shape[1], device=device.name)
    Z = trigonometric(rows, W, sigma)
    coef, intercept = ridge(Z, targets)

    def fit():
        return model.fit(rows, targets).predict(rows[:100])

    def plain_fit():
        return ridge(trigonometric(rows, W, sigma), targets)

    def plain_predict():
        return trigonometric(rows, W, sigma) @ coef + intercept

    name, predict = "``TrigRBFSampler, Ridge``", partial(model.predict, rows)
    device.add(f"{name}, fit", expected[:100], ours=fit, plain=plain_fit)
    device.add(f"{name}, predict", expected, ours=predict, plain=plain_predict)

    learner = crt.RandomFeatureRidge(sampler, alpha=ALPHA)
    expected = learner.fit(X, y).predict(X)

    def copied_fit():
        return learner.fit(rows.cpu(), targets.cpu()).predict(rows[:100].cpu())

    def copied_predict():
        return learner.predict(rows.cpu())

    name = "``RandomFeatureRidge``, rows copied to main memory"
    device.add(f"{name}, fit", expected[:100], ours=copied_fit, plain=plain_fit)
    device.add(f"{name}, predict", expected, ours=copied_predict, plain=plain_predict)


def add_attention(device, length):
    """Measure linear attention, causal and not."""
    from torch.nn.functional import scaled_dot_product_attention as exact

    rng = np.random.default_rng(2)
    shape = 1, N_HEADS, length, D_HEAD
    here = [0.3 * rng.standard_normal(shape, dtype=np.float32) for _ in "qkv"]
    sampler = crt.OPRFSampler(
        sigma=D_HEAD**-0.25, n_components=M_HEAD, kernel="softmax", random_state=0
    )
    sampler.fit(here[0].reshape(-1, D_HEAD), X_key=here[1].reshape(-1, D_HEAD))
    there = [device.array(values) for values in here]
    W, A = torch.randn(M_HEAD, D_HEAD, device=device.name), float(sampler.A_)
    for causal in (False, True):
        options = {"feature_map": sampler, "causal": causal}
        device.add(
            f"``linear_attention``{', causal' * causal}",
            linear_attention(*here, **options),
            ours=partial(linear_attention, *there, **options),
            plain=partial(attention, *there, W, A, causal),
            exact=partial(exact, *there, is_causal=causal),
        )


def accelerators(
    device="cuda", rows=200_000, columns=64, features=1024, length=8192, repeats=5
):
    """Return the table of all operations."""
    if torch is None:
        sys.exit("This benchmark requires torch.")
    place = Device(device, repeats)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    with sklearn.config_context(array_api_dispatch=True), torch.no_grad():
        add_transforms(place, features, X)
        add_ridge(place, features, X)
        add_attention(place, length)
    names = ["operation", "sklearn_crt", "plain torch", "times as fast"]
    names += ["fused exact attention", "difference from NumPy"]
    title = (
        f"Milliseconds on {place.card}: {rows:,} rows of {columns} columns, "
        f"{features} features; attention of {N_HEADS} heads, {length:,} rows "
        f"of {D_HEAD} columns, {M_HEAD} features"
    )
    facts = [of_interleaved(repeats, time.perf_counter)]
    facts.append(f"torch {torch.__version__}, {place.card}")
    return [Table(title, names, place.rows)], facts


if __name__ == "__main__":
    Command(accelerators, "accelerators.inc", QUICK, threads="as by default").main()
