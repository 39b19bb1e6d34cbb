"""Hosts the group and transaction machines on the leaders of their partitions.

`groups` and `transactions` have one typed method per request. `hosted_shards` follows the leadership of an
internal topic's partitions and finds the shard of a key; a `HostedShard` runs the machine of one partition.
`verification` and `produce_verification` check the first write of a transaction with its coordinator;
`marker_sender` and `marker_writer` carry out the end of a transaction.
"""
