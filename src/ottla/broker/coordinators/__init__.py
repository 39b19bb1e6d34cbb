"""Shells around the machines that live in partitions of internal topics, such as groups.

A `HostedShard` is one such partition that this broker leads; a `Coordinator` finds the shard of a key and
follows leadership; `groups` turns requests about consumer groups into questions to shards.
"""
