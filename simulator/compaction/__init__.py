"""Compacted topics: clients, checkers, scenario."""
