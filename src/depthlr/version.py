"""Which depthlr this is; pyproject.toml says the same."""

VERSION = "0.1.0"
