"""The paper's width and epoch table: ViT / CIFAR-10 at widths 288, 384 and 480, the best rate after epochs 1, 2 and 3.

One sweep of three epochs a width; those of one and two epochs take its cells' beginnings and add what they miss. The
paper does not give the depths: they are the zero-shot table's, whose sweep is the entry of width 384 and epoch 3.
"""

from __future__ import annotations

from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting
from experiments.paper.zero_shot import SIZES, VIT_384_EPOCH_3

PRINTED = {  # slope and R^2 by width, epochs 1 to 3
    288: ((-1.352, 0.938), (-1.531, 0.943), (-1.207, 0.739)),
    384: ((-1.360, 0.980), (-1.444, 0.928), (-1.501, 0.898)),
    480: ((-1.345, 0.990), (-1.647, 0.961), (-1.550, 0.924)),
}
EPOCHS = 3


def _setting(width: int, epochs: int, longer: Setting | None) -> Setting:
    return Setting(
        name=f"vit-{width}-epoch-{epochs}",
        title=f"ViT of width {width}, CIFAR-10, epoch {epochs}",
        spec=f"vit?width={width}&heads=6&patch=4",
        vary="blocks",
        sizes=SIZES,
        data="cifar10",
        label="depth",
        printed=(Printed("tab:vit_width_epoch", *PRINTED[width][epochs - 1]),),
        low=1e-5,
        high=1.0,
        epochs=epochs,
        longer=longer,
    )


def _row(width: int) -> tuple[Setting, ...]:
    """Most epochs first: the others begin as it does."""
    last = VIT_384_EPOCH_3 if width == 384 else _setting(width, EPOCHS, None)
    return (last, *(_setting(width, epochs, last) for epochs in range(EPOCHS - 1, 0, -1)))


WIDTH_EPOCHS = Recipe(
    name="width-epochs",
    title="Width and epoch table: ViT at three widths, the best rate after epochs 1 to 3",
    places=("tab:vit_width_epoch",),
    settings=(*_row(384), *_row(288), *_row(480)),
)
