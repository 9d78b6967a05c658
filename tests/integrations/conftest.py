"""timm, transformers and Lightning import torchvision, whose compiled operators may not fit the installed torch."""

from depthlr.models.libraries import import_torchvision

import_torchvision()
