"""Setup that every test shares."""

import signal

import pytest
import torch

from depthlr.models.libraries import import_torchvision

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a job in the background; the tests interrupt what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    # The process that hands out the tests imports the module of every warning's class; Lightning's needs torchvision.
    if config.getoption("numprocesses", None):
        import_torchvision()


@pytest.fixture(scope="session")
def timm_module():
    """timm, which `make test` installs."""
    import_torchvision()
    import timm

    return timm
