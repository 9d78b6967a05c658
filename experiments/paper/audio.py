"""The paper's audio table, "a preliminary non-vision sanity check" of which it gives depths and rates alone.

Its depths 6 10 14 18 are read as a transformer of 2 4 6 8 blocks, and a 1-D CNN of the same depths stands beside it.
The data are ours: 3,000 spoken digits (Free Spoken Digit Dataset) as spectrograms of 48 mel bands and 48 frames.
"""

from __future__ import annotations

from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting

PRINTED_RATES = {6: 6.31e-2, 10: 2.39e-2, 14: 2.39e-2, 18: 9.03e-3}  # by effective depth
SPECTROGRAMS = "wav?mels=48&frames=48"
STEPS = 230  # ten epochs: one has 23 steps

AUDIO_TRANSFORMER = Setting(
    name="audio-transformer",
    title="Transformer, spoken digits",
    spec="vit?width=192&heads=6&patch=4",
    vary="blocks",
    sizes=(2, 4, 6, 8),
    data=SPECTROGRAMS,
    label="depth",
    printed=(Printed("tab:audio_sanity", -1.578, 0.891),),
    low=1e-5,
    high=1.0,
    steps=STEPS,
    note="depths 6 10 14 18 as 2 4 6 8 blocks. Ten epochs, 230 steps, in `paper`; 100 steps in `short`",
)
AUDIO_CNN = Setting(
    name="audio-cnn",
    title="1-D CNN, spoken digits",
    spec="cnn1d?width=64",
    vary="layers",
    sizes=(5, 9, 13, 17),
    data=SPECTROGRAMS,
    label="depth",
    printed=(Printed("tab:audio_sanity", -1.578, 0.891),),
    steps=STEPS,
    sequences=True,
    note="the same depths as 5 9 13 17 layers and a head. The steps are the same",
)

AUDIO = Recipe(
    name="audio",
    title="Audio table: spoken digits",
    places=("tab:audio_sanity",),
    settings=(AUDIO_TRANSFORMER, AUDIO_CNN),
)
