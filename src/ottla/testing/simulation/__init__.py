"""A whole cluster in one thread, on a made-up clock, network and disk: the same seed, the same run, always.

loop.py       an asyncio event loop with virtual time; every process has its own queue
network.py    connections between hosts: delay, loss, partitions one-way and two-way, slow links
transport.py  one side of a connection, as asyncio's protocols know it
disk.py       a node's files: what a power cut leaves, full and slow disks, flipped bits
world.py      nodes (the shipped Broker) that are started, killed, cut off and paused; clients
clients.py    an idempotent producer and a consumer that write down what they were told
history.py    what they wrote down
checkers.py   what must hold for every history
scenarios.py  named stories to run with many seeds; `make simulate SEEDS=100`
"""
