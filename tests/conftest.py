"""Setup that every test shares."""

import signal

import pytest
import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background; the tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def torchvision_operators() -> torch.library.Library | None:
    """Declares the two operators torchvision looks for when imported: its wheel's own do not load with the CPU torch.

    timm imports torchvision, and so do transformers' models wherever it is installed.
    """
    if torch.version.cuda is not None:
        return None
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


TORCHVISION = torchvision_operators()  # the operators vanish with the library, so it is kept


@pytest.fixture(scope="session")
def timm_module():
    """timm, which `make test` installs."""
    import timm

    return timm
