"""What the paper prints of a setting, and where."""

from __future__ import annotations

from dataclasses import dataclass

PLACES = (  # the paper's own labels
    "tab:main-results",
    "tab:ablation-all",
    "tab:vit_width_epoch",
    "tab:zero_shot_transfer",
    "tab:audio_sanity",
    "fig:c10-cnn-relu",
    "fig:c10-resnet-amup-vs-pathsum",
    "fig:plot_vit",
    "fig:vit-loss-landscape",
    "fig:ablation-all",
    "fig:cnn-padding",
    "fig:kernel_size_cifar10_relu",
    "prop:cnn-lr",
)


@dataclass(frozen=True)
class Printed:
    """A slope as printed, and its R^2 where the paper gives one. It gives no interval of a slope anywhere."""

    where: str  # a label of PLACES
    slope: float
    r2: float | None = None
    digits: int = 3
    about: bool = False  # printed as "close to"

    def __str__(self) -> str:
        """As printed, with a real minus sign."""
        text = f"{self.slope:.{self.digits}f}".replace("-", "\N{MINUS SIGN}")
        return f"≈ {text}" if self.about else text
