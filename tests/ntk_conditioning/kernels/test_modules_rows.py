"""A kernel is that of its samples, wherever a module has them on the way; or an error says why not.

Right is the product of gradients of each sample alone.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from ntk_conditioning import condition, ntk
from ntk_conditioning.kernels.differentiated_modules import MixedSamplesError, OutputsError
from tests.ntk_conditioning.kernels.networks_to_differentiate import (
    OfFunction,
    assert_right,
    vision_transformer,
)

pytestmark = pytest.mark.usefixtures("double")


def moved(layer, h, i):
    """Return a layer of the rows in another order, which are put back."""
    return layer(h[i])[i.argsort()]


def extremes_swapped(layer, h):
    i = torch.arange(len(h))
    low, high = h[:, 0].argmin(), h[:, 0].argmax()
    i[low], i[high] = high, low
    return moved(layer, h, i)


def from_a_list(layer, h):
    numbers = h[:, 0].tolist()
    return moved(layer, h, torch.tensor(sorted(range(len(h)), key=numbers.__getitem__)))


def masked(layer, h):
    mask = h[:, 0] > 0.3
    made = layer(h)
    return torch.zeros_like(made).masked_scatter(mask[:, None], layer(h[mask]))


def padded(layer, h):
    return layer(functional.pad(h, (0, 0, 0, -len(h) % 4)))[: len(h)]


MOVING = {
    "sorted": lambda layer, h: moved(layer, h, h[:, 0].argsort()),
    "extremes swapped": extremes_swapped,
    "flagged first": lambda layer, h: moved(layer, h, (h[:, 0] < 0.8).int().argsort(stable=True)),
    "from a list": from_a_list,
    "masked": masked,
    "padded": padded,
    "halves exchanged": lambda layer, h: layer(h.roll(len(h) // 2, 0)).roll(-(len(h) // 2), 0),
    "as it is": lambda layer, h: layer(h),
}


#: Whose outputs are other ones among other samples, or at another place.
MIXING = {
    "not put back": lambda layer, h: layer(h[h[:, 0].argsort()]),
    "by the largest": lambda layer, h: layer(h) + functional.relu(h.max(0).values - 2).mean(),
    "by the place": lambda layer, h: layer(h) * (1 + (torch.arange(len(h))[:, None] > 50)),
}


def network(*kinds):
    def forward(m, x):
        for k, kind in enumerate(kinds):
            x = (MOVING | MIXING)[kind](m.get_submodule(f"l{k}"), x).tanh()
        return x[:, :2]

    return OfFunction(forward, **{f"l{k}": nn.Linear(3, 3) for k in range(len(kinds))})


@pytest.mark.parametrize("kind", MOVING | MIXING)
def test_samples_may_be_moved_on_the_way_and_those_that_depend_on_others_are_refused(kind):
    model, x = network(kind), torch.randn(150, 3).clamp(max=0.7)
    x[130] = 2.5  # in the third batch: sorted last, flagged and large
    if kind in ("not put back", "by the largest"):
        with pytest.raises(MixedSamplesError, match="place in the batch"):
            ntk(model, x)
    else:  # "by the place" is beyond the samples that are compared
        assert_right(ntk(model, x), model, x)


@given(
    kinds=st.lists(st.sampled_from(sorted(MOVING | MIXING)), min_size=1, max_size=3),
    n=st.integers(1, 12),
    seed=st.integers(0, 99),
    outputs=st.sampled_from(["sum", "full"]),
    memory=st.sampled_from([None, 6_000]),
)
@settings(max_examples=200)
def test_no_module_has_a_wrong_kernel(kinds, n, seed, outputs, memory):
    torch.manual_seed(seed)
    model, x = network(*kinds), torch.randn(n, 3)
    try:
        k = ntk(model, x, outputs=outputs, memory=memory)
    except MixedSamplesError:
        assert {*kinds} & {*MIXING}
        return
    assert_right(k, model, x, outputs=outputs, rel=1e-10)


def test_sequences_packed_by_length_have_their_kernel():
    def forward(m, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return m.gru(packed)[1][0]

    model = OfFunction(forward, gru=nn.GRU(2, 3, batch_first=True))
    inputs = torch.randn(5, 4, 2), torch.tensor([2, 4, 1, 3, 4])
    assert_right(ntk(model, inputs), model, *inputs)


def test_numbers_that_are_the_same_in_each_call_are_none_that_are_drawn():
    def forward(m, x):
        return m.layer(x) * torch.rand(3, generator=torch.Generator().manual_seed(0))

    model, x = OfFunction(forward, layer=nn.Linear(2, 3)), torch.randn(4, 2)
    assert_right(ntk(model, x), model, x)


def test_a_kernel_has_the_lowest_precision_on_the_way():
    body, x = vision_transformer().float(), torch.randn(6, 3, 8, 8).float()
    model = OfFunction(lambda m, x: m.body(x).double(), body=body)
    k = ntk(model, x)
    assert k.dtype == torch.float32
    assert condition(k).reduced_precision
    # Sums of some thousand products, each with a rounding of 6e-8.
    assert_right(k, body.double(), x.double(), rel=1e-5)


def test_outputs_with_a_constant_sum_have_no_kernel_of_their_sum(caplog):
    x = torch.randn(6, 3)
    for last in (nn.Softmax(1), nn.LayerNorm(5, elementwise_affine=False)):
        model = nn.Sequential(nn.Linear(3, 5), last)
        with pytest.raises(OutputsError, match="mean_of_kernels"):
            ntk(model, x)
        k = ntk(model, x, outputs="mean_of_kernels")
        assert_right(k, model, x, outputs="mean_of_kernels")
    assert not caplog.records  # nothing is slow
