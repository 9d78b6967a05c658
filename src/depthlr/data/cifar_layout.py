"""How CIFAR-10 and CIFAR-100 are published: files, folders and digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PUBLISHER = "https://www.cs.toronto.edu/~kriz"
ATTRIBUTION = (
    "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009 (www.cs.toronto.edu/~kriz/cifar.html); "
    "no licence is stated: cite the report"
)


@dataclass(frozen=True)
class Layout:
    """One way the training images are published: an archive that unpacks to a folder of files."""

    archive: str
    folder: str
    files: tuple[str, ...]
    pickled: bool
    md5: Mapping[str, str]  # of the archive, and of those files whose digest is known


@dataclass(frozen=True)
class Cifar:
    """A data set and its layouts, the one to prefer first."""

    name: str
    classes: int
    label_bytes: int  # before each image of a binary file; the last of them counts
    label_key: str  # of a pickled file
    layouts: tuple[Layout, ...]


CIFAR10_BINARY = Layout(
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    files=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    pickled=False,
    md5={
        "cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530",
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
)
CIFAR10 = Cifar(
    name="cifar10",
    classes=10,
    label_bytes=1,
    label_key="labels",
    layouts=(
        CIFAR10_BINARY,
        Layout(
            archive="cifar-10-python.tar.gz",
            folder="cifar-10-batches-py",
            files=tuple(f"data_batch_{i}" for i in range(1, 6)),
            pickled=True,
            md5={
                "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
        ),
    ),
)
CIFAR100 = Cifar(
    name="cifar100",
    classes=100,
    label_bytes=2,  # coarse, fine
    label_key="fine_labels",
    layouts=(
        Layout(
            archive="cifar-100-binary.tar.gz",
            folder="cifar-100-binary",
            files=("train.bin",),
            pickled=False,
            md5={"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
        ),
        Layout(
            archive="cifar-100-python.tar.gz",
            folder="cifar-100-python",
            files=("train",),
            pickled=True,
            md5={
                "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
                "train": "16019d7e3df5f24257cddd939b257f8d",
            },
        ),
    ),
)
