import pytest
import torch

from chainrule.neural.layers.basic import Dropout, drop


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.999])
def test_about_the_share_falls_and_the_mean_stays(share: float) -> None:
    torch.manual_seed(0)
    x = drop(torch.ones(1000, 1003), share)
    assert (x == 0).float().mean().item() == pytest.approx(share, abs=0.002)
    assert x.mean().item() == pytest.approx(1, abs=0.2 if share > 0.9 else 0.01)
    assert len(x.unique()) == 2


def test_neighbours_fall_independently() -> None:
    torch.manual_seed(0)
    fell = (drop(torch.ones(1 << 18), 0.5) == 0).double()
    for apart in (1, 2, 3, 4, 8):
        assert torch.corrcoef(torch.stack((fell[apart:], fell[:-apart])))[0, 1].abs().item() < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_gradient_is_there_where_the_number_is(dtype: torch.dtype) -> None:
    x = torch.randn(7, 5, 3, dtype=dtype, requires_grad=True)
    found = drop(x, 0.4)
    found.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), found.detach())
    assert found.dtype == dtype


def test_nothing_falls_where_nothing_should() -> None:
    x = torch.randn(10)
    assert drop(x, 0.0) is x
    assert drop(x, 0.5, training=False) is x
    assert Dropout(0.5).eval()(x) is x
    assert drop(torch.empty(0, 4), 0.5).shape == (0, 4)


def test_the_seed_says_what_falls() -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(drop(torch.ones(100), 0.5))
    torch.testing.assert_close(found[0], found[1])
