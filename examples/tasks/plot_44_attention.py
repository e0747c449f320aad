"""
How accurate is a torch model with linear attention?
====================================================

A transformer classifies images of digits. After training, its attention is replaced by
linear attention, whose time is proportional to the length of a sequence instead of its
square. How does this change the accuracy, and for which lengths is it faster? This
example needs torch.
"""

import copy
import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from sklearn_crt.attention.torch import LinearAttention, calibrate, replace_attention

# %%
# Each image is treated as a sequence of 32 pairs of pixels. The model has two attention
# layers with four heads each.
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 32, 2)
parts = train_test_split(images, torch.tensor(labels), test_size=0.4, random_state=0)
X, X_test, y, y_test = parts


class Reader(nn.Module):
    """A transformer on pixels with learned positions, whose outputs are averaged."""

    def __init__(self, width=32):
        super().__init__()
        self.pixels = nn.Linear(2, width)
        self.place = nn.Parameter(0.5 * torch.randn(32, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.scores = nn.Linear(width, 10)

    def forward(self, rows):
        tokens = self.encoder(self.pixels(rows) + self.place)
        return self.scores(tokens.mean(dim=1))


def train(model, n_epochs):
    """Return the accuracy in percent before training and after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    found = []
    for epoch in range(n_epochs + 1):
        for rows in torch.randperm(len(X)).split(32) if epoch else ():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model.train()(X[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            right = model.eval()(X_test).argmax(dim=1) == y_test
        found.append(100 * float(right.float().mean()))
    return found


# %%
# ``replace_attention`` keeps the weights, and ``calibrate`` adapts the features of the
# new layers to the data. Both models are then trained for two more epochs.
model = Reader()
before = train(model, 6)
linear = copy.deepcopy(model)
replace_attention(linear, n_components=32, random_state=0)
calibrate(linear, X.split(100))
curves = {"exact attention": train(model, 2), "linear attention": train(linear, 2)}

# %%
# The time of one layer of each kind is measured for sequences of increasing length.
exact = nn.MultiheadAttention(32, 4, batch_first=True)
layers = [exact, LinearAttention.from_multihead(exact, n_components=32, random_state=0)]
lengths = 256, 512, 1024, 2048, 4096, 8192
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), layout="constrained")
left.plot(before, "o-", color="C0")
for layer, (name, curve) in zip(layers, curves.items(), strict=True):
    left.plot(range(6, 9), curve, "o-", label=name)
    seconds = []
    for length in lengths:
        rows, times = torch.randn(1, length, 32), []
        for _ in range(2):
            start = time.process_time()
            layer(rows, rows, rows, need_weights=False)
            times.append(time.process_time() - start)
        seconds.append(min(times))
    right.plot(lengths, seconds, "o-", label=name)
left.set(xlabel="epochs", ylabel="test accuracy (%)", ylim=(0, 100))
right.set(xlabel="length of a sequence", ylabel="processor seconds of a layer")
right.set(xscale="log", yscale="log", xticks=lengths, xticklabels=lengths)
right.minorticks_off()
for ax in (left, right):
    ax.legend()
plt.show()

# %%
# Left: the features only approximate the attention with which the model was trained, so
# the accuracy decreases at first. It recovers after one epoch. Right: linear attention
# is not faster for sequences as short as these images, but its advantage grows with the
# length of the sequence.
