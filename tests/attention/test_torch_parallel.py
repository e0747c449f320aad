"""Linear attention of torch in several processes, by DistributedDataParallel."""

import copy
import inspect

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch is built without gloo", allow_module_level=True)

from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from sklearn_crt.attention.torch import calibrate  # noqa: E402

from .modules import make, rows  # noqa: E402

pytestmark = pytest.mark.slow  # two processes that import torch

MODULES = {
    "favor++": {},
    "causal": {"causal": True},
    "derf": {"feature_map": "derf", "causal": True},
    "redraw": {"feature_map": "favor+", "redraw_interval": 1},
    "calibrated": {"momentum": 0.0},
}
# buffers are sent to the others before each pass, and the seeds differ, or not; or each
# rank keeps its own, and the seeds are the same
SENT = {(name, "sent") for name in MODULES}
SEEDED = {(name, "seeded") for name in MODULES}
KEPT = {(name, "kept") for name in MODULES if name != "calibrated"}


def batches(rank):
    """Return the batches of a process, of unlike sizes."""
    torch.manual_seed(rank)
    return [(1 + rank + i) * rows() for i in range(3)]


def train(rank, name, mode):
    """Return what a module is in each batch, and outputs for rows of all ranks."""
    torch.manual_seed(rank)
    module = make(**MODULES[name], random_state=rank if mode == "sent" else 0)
    if name == "calibrated":
        calibrate(module, [(x, x, x) for x in batches(rank)])
    parameters = inspect.signature(DistributedDataParallel).parameters
    known = "forward_sync_buffers" in parameters  # the name since torch 2.13
    sync = "forward_sync_buffers" if known else "broadcast_buffers"
    parallel = DistributedDataParallel(module, **{sync: mode != "kept"})
    found = {"start": copy.deepcopy(module.state_dict())}
    found |= {"A": [], "map": [], "statistics": []}
    for x in batches(rank):
        parallel(x, x, x)[0].square().mean().backward()
        numbers = [b.flatten() for n, b in module.named_buffers() if n[:4] == "map_"]
        found["map"].append(torch.cat(numbers))
        if module.statistics is not None:
            A = module._A
            found["A"] += [] if A is None else [A]
            found["statistics"].append(copy.deepcopy(module.statistics.state_dict()))
    module.eval()
    torch.manual_seed(0)
    x = rows()
    with torch.no_grad():  # at first of the buffers of this rank
        found["outputs"] = [one(x, x, x)[0] for one in (module, parallel)]
    return found


def run(rank, folder):
    """Train all modules as one of two processes."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", store, rank=rank, world_size=2)
    found = {case: train(rank, *case) for case in sorted(SENT | SEEDED | KEPT)}
    torch.save(found, f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return what both processes found in each case."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(run, (folder,), nprocs=2)
    found = [torch.load(folder / str(rank)) for rank in range(2)]
    return {case: [one[case] for one in found] for case in found[0]}


def same(ranks, name, *at):
    """Return the cases in which two ranks have the same, in every batch or at one."""
    found = set()
    for case, (one, other) in ranks.items():
        pairs = list(zip(one[name], other[name], strict=True))
        pairs = [pairs[i] for i in at] or pairs
        if pairs and all(torch.equal(a, b) for a, b in pairs):
            found.add(case)
    return found


def test_which_ranks_have_the_same_features(ranks):
    # draws of their own; the covariances of their own batches
    apart = {("redraw", "sent"), ("derf", "kept")}
    assert same(ranks, "map") == (SENT | SEEDED | KEPT) - apart
    # where not causal a batch counts at once; where it is, those before
    agree = {("causal", "sent"), ("causal", "seeded"), ("calibrated", "sent")}
    assert same(ranks, "A") == agree | {("calibrated", "seeded")}


def test_evaluation_has_the_features_of_the_first_rank(ranks):
    assert ("favor++", "sent") not in same(ranks, "outputs", 0)
    # a map that is kept for evaluation would be that of before
    assert same(ranks, "outputs", 1) >= SENT | SEEDED
    assert ("favor++", "kept") not in same(ranks, "outputs", 1)


@pytest.mark.parametrize("name, mode", sorted(SENT | KEPT))
def test_whose_batches_are_in_the_running_statistics(ranks, name, mode):
    pair = ranks[name, mode]
    for rank, found in enumerate(pair):
        module = make(**MODULES[name])
        module.load_state_dict(found["start"])
        for i, x in enumerate(batches(rank) if found["statistics"] else []):
            if i and mode == "sent":  # as those of rank 0 were before
                module.statistics.load_state_dict(pair[0]["statistics"][i - 1])
            module(x, x, x)
            after = module.statistics.state_dict()
            torch.testing.assert_close(after, found["statistics"][i])
