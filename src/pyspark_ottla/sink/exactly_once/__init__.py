"""The exactly-once sink: two-phase commit with Kafka transactions and a commit log.

| step | where | action |
| --- | --- | --- |
| 1 | task | writes its rows in a transaction, leaves it open and returns its handle |
| 2 | driver | appends a marker (query, batch, handles) to the commit topic: the commit point |
| 3 | driver | commits the transactions in the marker, aborts those of other attempts |
| 4 | driver | appends the marker again, flagged as done |

A restarted query reads the marker and resumes there: a batch with a marker is never written again, and if the
marker is not done its transactions are committed first, which is idempotent. Before a driver appends a marker
it fences all other drivers of the query with a new producer epoch. Two drivers of one query can therefore not
both commit, and delayed appends of the fenced driver are refused.

Transactional ids are `ottla-spark/<query>/<run>/<worker>/<slot>`: no two attempts use the same id at one
time. The workers of a run reuse their ids for later batches, so that coordinators need not keep one for every
task. Ids of the first batch that a worker sees are not reused: another driver may have listed them as
leftovers of the same batch.
"""
