"""Raft clusters in memory."""
