"""ResNet optima against AM-muP and PathSum at growing depth (fig:c10-resnet-amup-vs-pathsum).

AM-muP twice: by its law, depth^(-3/2), and by the energies that the law is an estimate of, measured at initialization
on the models and data of the sweep.
"""

from __future__ import annotations

from experiments.paper.energy_setting import EnergySetting
from experiments.paper.main import CIFAR10_RESNET
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import BATCH

RESNET_ENERGY = EnergySetting(
    name="energy-cifar10-resnet",
    title="ResNet, CIFAR-10, energy at initialization",
    spec=CIFAR10_RESNET.spec,
    vary=CIFAR10_RESNET.vary,
    sizes=CIFAR10_RESNET.sizes,
    data=CIFAR10_RESNET.data,
    printed=(Printed("fig:c10-resnet-amup-vs-pathsum", -1.5, digits=1),),
    batch=BATCH,
)

PATHSUM = Recipe(
    name="pathsum",
    title="ResNet optima against AM-muP and PathSum",
    places=("fig:c10-resnet-amup-vs-pathsum",),
    settings=(CIFAR10_RESNET, RESNET_ENERGY),
)
