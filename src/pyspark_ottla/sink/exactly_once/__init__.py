"""The exactly-once sink: tasks prepare transactions, one record decides on a batch, then they are ended.

| step | where | what |
| --- | --- | --- |
| 1 | task | writes its rows in a transaction of its own, leaves it open, tells its handle |
| 2 | driver | appends a marker (query, batch, handles) to the commit topic: this decides |
| 3 | driver | commits the transactions of the marker, aborts those of attempts that did not count |
| 4 | driver | appends the marker again, as done |

Whoever comes later finds the marker and goes on from there: a batch that is decided is never written again,
and if it is not done its transactions are committed first, which may be repeated. Before it decides a driver
takes over the right to do so from all others (a new epoch of the query's producer), so that two that both
believe to run the query cannot both decide, and what one of them has sent late is refused.

Transactional ids are `ottla-spark/<query>/<run>/<worker>/<slot>`: no two attempts have the same at a time.
Those of the workers of one run are used again for later batches, so that coordinators need not remember one
for every task that ever was. Ids of the first batch that a worker sees are not: a driver before ours may have
listed them as leftovers of the same batch.
"""
