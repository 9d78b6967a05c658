"""Recipes and callbacks for trainers that people already use: `hf`, `lightning`, `timm`.

Each module imports its library inside functions, so depthlr needs none of them.
"""
