"""The paper's experiments, one recipe a table or figure, in the order of their importance."""

from experiments.paper.ablation import ABLATION
from experiments.paper.audio import AUDIO
from experiments.paper.kernel import KERNEL
from experiments.paper.main import MAIN
from experiments.paper.padding import PADDING
from experiments.paper.pathsum import PATHSUM
from experiments.paper.recipe import Recipe
from experiments.paper.text import TEXT
from experiments.paper.theory import THEORY
from experiments.paper.variants import VARIANTS
from experiments.paper.width_epochs import WIDTH_EPOCHS
from experiments.paper.zero_shot import ZERO_SHOT

RECIPES: dict[str, Recipe] = {
    "main": MAIN,
    "zero-shot": ZERO_SHOT,
    "ablation": ABLATION,
    "variants": VARIANTS,
    "padding": PADDING,
    "kernel": KERNEL,
    "pathsum": PATHSUM,
    "audio": AUDIO,
    "width-epochs": WIDTH_EPOCHS,
    "text": TEXT,
    "theory": THEORY,
}

__all__ = ["RECIPES", "Recipe"]
