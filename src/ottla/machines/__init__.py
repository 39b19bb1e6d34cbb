"""The vocabulary of replicated state machines: what they take, what they return, what they may keep.

The controller, a shard of the group coordinator and a shard of the transaction coordinator are the same kind
of machine, and every later one (tier metadata, schema registry, share groups) is meant to be:

    decide(request, context, now_ms) -> Outcome   pure: no I/O, no clock, no randomness of its own
    append(outcome.records)                       by the host, to the machine's own replicated log
    apply(record)                                 the only code that changes durable state
    reply                                         by the host, when the records are committed

`ottla.broker.hosting` hosts a machine on the leader of its log. Records are applied as soon as they are
decided, so that the next decision builds on them; if they cannot be appended, the host drops the machine and
rebuilds it from the log.

Soft state
----------
State that no record describes is the exception to "only `apply` changes state". It is lost when the leader of
the log changes, the next leader rebuilds or restarts it, and what `apply` makes of a record never depends on
it. Each machine lists what it has:

- controller: `ottla.controller.soft_state` (broker sessions, metadata offsets from heartbeats);
- groups: session and rebalance timers, requests that wait for a rebalance, rebalance history; see
  `ottla.groups.shard`;
- transactions: time-outs of ongoing transactions and the expiry scan; see `ottla.transactions.shard`. The
  leaders of data partitions keep verification guards; see `ottla.transactions.partition`.
"""
