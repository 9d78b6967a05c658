"""Hostile input: every reader gets damaged files and texts, and the API gets random modules.

python -m experiments.fuzz                         every reader for ten minutes
python -m experiments.fuzz spec wav --seconds 60   some of them
"""
