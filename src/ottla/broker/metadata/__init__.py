"""The cluster metadata on this node.

`raft_driver.py` runs the Raft machine; `applier.py` applies what it commits; `publisher.py` writes the
metadata cache and makes the partitions follow. While this node leads the quorum, `controller_host.py` runs
the controller (`controller_loop.py`, `controller_duties.py`). Other parts reach the active controller, on
whichever node it runs, through `controller_channel.py`.
"""
