"""Layer 5: the paper's experiments, one recipe a table or figure, in the order of their importance."""

from depthlr.recipes.ablation import ABLATION
from depthlr.recipes.audio import AUDIO
from depthlr.recipes.kernel import KERNEL
from depthlr.recipes.main import MAIN
from depthlr.recipes.padding import PADDING
from depthlr.recipes.pathsum import PATHSUM
from depthlr.recipes.recipe import Recipe
from depthlr.recipes.text import TEXT
from depthlr.recipes.theory import THEORY
from depthlr.recipes.variants import VARIANTS
from depthlr.recipes.width_epochs import WIDTH_EPOCHS
from depthlr.recipes.zero_shot import ZERO_SHOT

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
