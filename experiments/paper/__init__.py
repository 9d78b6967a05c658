"""The paper's experiments. `recipes.py` states them, `running/` trains and measures, `page/` writes what came of it."""
