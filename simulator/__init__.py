"""A whole cluster in one thread, on a made-up clock, network and disk: the same seed, the same run, always.

loop.py             an asyncio event loop with virtual time; every process has its own queue
network.py          connections between hosts: delay, loss, partitions one-way and two-way, slow links
transport.py        one side of a connection, as asyncio's protocols know it
disk.py             a node's files: what a power cut leaves, full and slow disks, flipped bits
world.py            nodes (the shipped Broker) that are started, killed, cut off and paused; clients
clients.py          what clients have in common; producers.py, consumers.py and admins.py are those there are
observe.py          what can be seen inside of nodes: leaders, committed metadata, logs
history.py          what clients were told and what was observed
checkers.py         what must hold for every history
nemesis.py          who breaks things
cast.py             the clients of a story, and its end
group_history.py    what groups of consumers did; group_checkers.py: what must hold for it
company_members.py  their members; classic_members.py, reconciling_members.py: the protocols they speak
companies.py        whole groups, whose members crash, pause, leave and come back; company_stories.py
stories.py          stories of one node; cluster_stories.py: of many
scenarios.py        all stories by name, to be run with many seeds; `make simulate SEEDS=100`
"""
