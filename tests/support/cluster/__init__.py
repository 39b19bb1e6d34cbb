"""Load, views and files of a real cluster."""
