"""Running a recipe's settings: resumable, within lent time, each writing its tables."""
