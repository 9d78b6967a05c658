"""Recipes and callbacks for trainers that people already use: `hf`, `lightning`, `timm`.

depthlr itself imports none of these modules, so it needs none of their libraries.
"""
