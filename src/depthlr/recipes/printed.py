"""What the paper prints of a setting, and where."""

from __future__ import annotations

from dataclasses import dataclass

PLACES: dict[str, str] = {  # the paper's own labels, and what a reader calls them
    "tab:main-results": "main table",
    "tab:ablation-all": "ablation table",
    "tab:vit_width_epoch": "width and epoch table",
    "tab:zero_shot_transfer": "zero-shot table",
    "tab:audio_sanity": "audio table",
    "fig:c10-cnn-relu": "CNN figure",
    "fig:c10-resnet-amup-vs-pathsum": "ResNet and PathSum figure",
    "fig:plot_vit": "ViT variants figure",
    "fig:vit-loss-landscape": "loss landscapes figure",
    "fig:ablation-all": "ablation figure",
    "fig:cnn-padding": "padding figure",
    "fig:kernel_size_cifar10_relu": "kernel-size figure",
    "prop:cnn-lr": "propositions",
}


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

    @property
    def place(self) -> str:
        return PLACES[self.where]
