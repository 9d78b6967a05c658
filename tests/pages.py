"""What tests/test_pages.py changes in the code of the pages, what it gives them, and what it does not run."""

from __future__ import annotations

FEW = "\n[search]\nlow = 1e-3\nhigh = 30\npoints = 7\nseeds = 1\n"

# What a page writes, and what the test writes in its place.
SMALLER = {
    "docs/guide.md": {
        "resnet?blocks=4&width=16": "resnet?blocks=1&width=2",
        "resnet?blocks=16&width=16": "resnet?blocks=3&width=2",
        "mlp?width=256": "mlp?width=8",
        "4,8,16 --data": "2,4 --seeds 2 --data",
        "2,4,8 --data": "2,4 --seeds 2 --data",
        "lambda: Net(16)": "lambda: Net(8)",
        "lambda: Net(12)": "lambda: Net(6)",
        "seeds=5": "seeds=2",
    },
    "docs/tune.md": {
        "width=16": "width=2",
        "[2, 8]": "[1, 2]",
        "steps = 200": "steps = 40",
        "--verify": "--verify --share 0.5",
        "points = 25": "points = 7",
        "seeds = 2": "seeds = 1",
    },
    "docs/data.md": {'load("cifar10", "data").to("cuda")': 'load("digits")', '.to("cuda")': ""},
    "docs/plots.md": {
        "mlp?width=128": "mlp?width=8",
        "3,5,8,13,20": "1,2,4",
        "--steps 100": "--steps 5",
        "--points 28": "--points 7",
    },
    "docs/sweep.md": {
        "[2, 3, 4, 6, 8, 12]": "[1, 2, 4]",
        "steps = 100\nbatch = 64\n": f"steps = 5\nbatch = 16\n{FEW}",
        "resnet?width=16&": "resnet?width=2&",
        'vary = "blocks"\nsizes = [2, 4, 8]': 'vary = "blocks"\nsizes = [1, 2, 3]',
        "steps = 200": "steps = 10",
        "# the model's own initialization\n": FEW,
        'vary = "layers"\nsizes = [2, 4, 8]': 'vary = "layers"\nsizes = [1, 2]',
        "steps = 60\n": f"steps = 4\n{FEW}",
        '--seed {seed}"\n```': f'--seed {{seed}}"\n{FEW}```',
        "--sizes 2,4,8 ": "--sizes 2,4,8 --points 5 --seeds 1 ",
    },
    "docs/guides/start.md": {"layers=24": "layers=6", "max_steps=1000": "**TINY"},
    "docs/guides/hf-trainer.md": {
        "50257, (4096, 1024)": "64, (256, 8)",
        "n_embd=768, n_head=12": "n_embd=16, n_head=2, vocab_size=64, n_positions=8, use_cache=False",
        "layers=24": "layers=6",
        "max_steps=2000": "max_steps=4",
        "warmup_steps=200": "warmup_steps=1",
        '        "runs",\n': '        "runs", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,\n',
        "per_device_train_batch_size=8": "per_device_train_batch_size=2",
    },
    "docs/guides/timm-vit.md": {
        "(512, 3, 224, 224)": "(64, 3, 32, 32)",
        "(512,)": "(64,)",
        "batch_size=16": "batch_size=4",
        "depth=depth)": "depth=depth, img_size=32, embed_dim=24, num_heads=3)",
        "vit(12)": "vit(6)",
    },
    "docs/guides/lightning.md": {
        "LitMLP(24)": "LitMLP(6)",
        "2048": "256",
        "max_steps=1000": 'max_steps=4, accelerator="cpu", logger=False, enable_checkpointing=False',
    },
    "docs/guides/own-script.md": {"4096": "512", "Net(24)": "Net(8)", "50304, (3, 2, 12, 1024)": "64, (3, 2, 4, 8)"},
    "docs/guides/coming-from-mup.md": {"2048": "256", "256, 64\n": "16, 8\n"},
}

# What a reader of a page has already: a shell script that runs before its blocks.
GIVEN = {
    "docs/guide.md": """
mkdir my_package; touch my_package/__init__.py
echo 'from depthlr.models import CNN' > my_package/models.py
echo 'def build(width): return CNN(layers=2, width=width)' >> my_package/models.py
""",
    "docs/guides/own-script.md": """
cat > model.py <<'EOF'
from torch.nn.functional import cross_entropy

from depthlr import models


def GPTConfig(n_layer):
    return {"blocks": n_layer, "width": 16, "vocabulary": 64, "context": 8}


class GPT(models.GPT):
    def __init__(self, config):
        super().__init__(**config)

    def forward(self, idx, targets=None):
        logits = super().forward(idx)
        return logits, None if targets is None else cross_entropy(logits.flatten(0, 1), targets.flatten())
EOF
""",
    "docs/report.md": """
echo 'model = {spec = "mlp?width=8", vary = "layers", sizes = [1, 2, 4]}' > mlp.toml
echo 'training = {steps = 5, metric = "budget"}' >> mlp.toml
echo 'search = {low = 1e-2, high = 1, points = 5, seeds = 1}' >> mlp.toml
depthlr sweep mlp.toml
""",
    "docs/sweep.md": """
echo 'import sys' > train.py
echo 'rate, layers = float(sys.argv[2]), int(sys.argv[4])' >> train.py
echo 'print("{\\"loss\\": %r}" % (1 + (rate * layers - 0.5) ** 2))' >> train.py
""",
}

# Commands that are parsed and not run, and why. A command is named by how it begins.
PARSED = {
    "README.md": {
        "depthlr demo": "takes a minute; tests/cli/test_verbs.py runs it",
        "depthlr tune recipe.toml": "recipe.toml stands for the reader's; that of docs/tune.md is run",
    },
    "docs/cluster.md": {"depthlr sweep study.toml --on": "needs a cluster"},
    "docs/data.md": {
        "depthlr data cifar": "needs a network",
        "depthlr data images": "needs a folder of images",
        "depthlr data wav": "needs a folder of recordings",
        "depthlr data text": "needs a folder of text",
        "depthlr data tokens": "needs a folder of tokens",
        "depthlr sweep tokens.toml": "tests/cli/test_docs.py runs it",
        "depthlr sweep rows.toml": "tests/cli/test_docs.py runs it",
    },
    "docs/report.md": {"depthlr sweep mlp.toml --serve": "serves a page", "depthlr serve": "serves a page"},
    "docs/results.md": {"depthlr data": "needs a network", "depthlr reproduce": "takes hours, or rewrites the page"},
    "docs/sweep.md": {
        "depthlr sweep study.toml --on": "needs a cluster",
        "depthlr report resnet.sqlite --metric last_epoch": "is for studies whose length is given in epochs",
        "depthlr tell": "which cell is asked for depends on the search",
    },
}
# Blocks of Python that are compiled and not run, and why. A block is named by words in it.
COMPILED = {
    "docs/sweep.md": {"RayExecutor": "needs Ray and SLURM"},
}
