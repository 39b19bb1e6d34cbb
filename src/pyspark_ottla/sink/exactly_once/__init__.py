"""The exactly-once sink: two-phase commit with Kafka transactions and a commit log.

| step | where | action |
| --- | --- | --- |
| 1 | task | writes its rows in a transaction, leaves it open and returns its handle |
| 2 | driver | checks the time left; appends a marker (query, batch, handles): the commit point |
| 3 | driver | commits the transactions in the marker, aborts those of other attempts |
| 4 | driver | appends the marker again, flagged as done |

A restarted query reads the marker and resumes there: a batch with a marker is never written again, and if the
marker is not done its transactions are committed first, which is idempotent. Before a driver appends a marker
it fences all other drivers of the query with a new producer epoch. Two drivers of one query can therefore not
both commit, and delayed appends of the fenced driver are refused.

Before a batch is decided the driver checks that transactions with a time-out will last until they are
committed; otherwise it aborts all of them, and the batch is repeated. It also lists the open transactions of
the query, and aborts those of other attempts after the commit.

Transactional ids are `ottla-spark/<query>/<run>/<worker>/<number>`: no two attempts use the same id at one
time. The workers of a run reuse ids whose last transaction was committed, so that coordinators need not keep
one for every task (`transactional_ids.py`).
"""
