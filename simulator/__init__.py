"""A deterministic simulator: a whole cluster in one thread, on a simulated clock, network and disks.

The same seed always produces the same run. Run many seeds with `make simulate SEEDS=100`.

runtime/        event loop with virtual time, network, disks, trace
world.py        a World: nodes that run the shipped broker, clients, and one random generator per part
history/        operations and reads of clients; checkers.py: what must hold for every history
inspection.py   the state inside nodes: leaders, committed metadata, logs
faults.py       the fault injector
clients/        producers, consumers and administrators
scenarios/      scenarios with one node or a cluster, and the workload and final state that all share
compaction/     compacted topics
groups/         consumer groups
transactions/   transactions
stress/         machines that are slow, out of something or wrong about the time; health of the cluster
runner.py       all scenarios by name, and `run_scenario`
"""
