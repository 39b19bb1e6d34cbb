"""Clusters under stress: work that takes time, slow and failing disks, clocks, descriptors, changed settings.

faults.py       the faults
watch.py        samples the health of the cluster, and takes the census of tasks and waiters
checkers.py     what must hold for it
clients.py      clients that change configurations, delete records, change voters
scenario.py     the scripts; stories.py: all stories by name
known.py        defects that stories find and that are not fixed yet
"""
