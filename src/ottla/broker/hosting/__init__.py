"""The shell that hosts a machine (see `ottla.machines`) on the leader of its log.

    decide -> MachineHost.add -> MachineLog.append -> committed -> replies and effects

`host` appends what a machine decides and replies when it is committed. `machine_log` is the interface of the
log: the metadata quorum and a replicated partition both provide it. `machine_clock` wakes a machine when a
timer is due.

The two users of `host` differ in these points, which the owner implements:

- `coordinators.hosted_shard` decides a request as soon as it arrives, so that one with nothing to write,
  such as a heartbeat, is answered at once. Its machine applies records while it decides: after a failed
  append the machine is dropped and rebuilt from the log. A full disk is retried, because the records are
  still valid.
- `metadata.controller_loop` decides right before the append, because the epoch of a broker is the offset of
  its registration record. A full disk fails the commands, and the controller returns to the committed image.
"""
