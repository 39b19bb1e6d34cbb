"""The controller: the cluster image and every decision that changes it.

- `image`: the state of the cluster, built from the records of the metadata log;
- `partitions`, `topics`, `brokers`, `cluster`: decisions by subject, `decide_*(context, ...) -> Outcome`;
- `controller`, `context`, `soft_state`: what the host keeps between decisions.
"""
