"""The results page and its pictures, from the committed tables alone."""
