"""Handlers: `handle(broker, request, message)` answers with a message, a Future (the following requests of
the connection go on meanwhile), a coroutine (they wait), or None (no response). A module serves the API of
its `API_KEY`, or those of its `API_KEYS` where they are handled alike.

What is listed here is also what ApiVersions tells: clients, and brokers and controllers among themselves."""

_COMMAND, _RAFT, _QUORUM = "controller_command", "raft_request", "quorum_admin"
_GROUP = "group"

# On the listeners of brokers.
HANDLERS: dict[int, str] = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: _GROUP,  # OffsetCommit
    9: "offset_fetch",
    10: "find_coordinator",
    11: _GROUP,  # JoinGroup
    12: _GROUP,  # Heartbeat
    13: _GROUP,  # LeaveGroup
    14: _GROUP,  # SyncGroup
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: _COMMAND,  # CreateTopics
    20: _COMMAND,  # DeleteTopics
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    32: "describe_configs",
    33: _COMMAND,  # AlterConfigs
    35: "describe_log_dirs",
    37: _COMMAND,  # CreatePartitions
    42: "delete_groups",
    43: _COMMAND,  # ElectLeaders
    44: _COMMAND,  # IncrementalAlterConfigs
    45: _COMMAND,  # AlterPartitionReassignments
    46: _COMMAND,  # ListPartitionReassignments
    47: _GROUP,  # OffsetDelete
    55: _QUORUM,  # DescribeQuorum
    57: _COMMAND,  # UpdateFeatures
    60: "describe_cluster",
    61: "describe_producers",
    64: _COMMAND,  # UnregisterBroker
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    80: _QUORUM,  # AddRaftVoter
    81: _QUORUM,  # RemoveRaftVoter
}

# On the listeners of controllers.
CONTROLLER_HANDLERS: dict[int, str] = {
    1: _RAFT,  # Fetch
    18: "api_versions",
    19: _COMMAND,  # CreateTopics
    20: _COMMAND,  # DeleteTopics
    32: "describe_configs",
    33: _COMMAND,  # AlterConfigs
    37: _COMMAND,  # CreatePartitions
    43: _COMMAND,  # ElectLeaders
    44: _COMMAND,  # IncrementalAlterConfigs
    45: _COMMAND,  # AlterPartitionReassignments
    46: _COMMAND,  # ListPartitionReassignments
    52: _RAFT,  # Vote
    53: _RAFT,  # BeginQuorumEpoch
    54: _RAFT,  # EndQuorumEpoch
    55: _QUORUM,  # DescribeQuorum
    56: _COMMAND,  # AlterPartition
    57: _COMMAND,  # UpdateFeatures
    58: "envelope",
    59: _RAFT,  # FetchSnapshot
    60: "describe_cluster",
    62: _COMMAND,  # BrokerRegistration
    63: "broker_heartbeat",
    64: _COMMAND,  # UnregisterBroker
    67: _COMMAND,  # AllocateProducerIds
    70: _COMMAND,  # ControllerRegistration
    73: _COMMAND,  # AssignReplicasToDirs
    80: _QUORUM,  # AddRaftVoter
    81: _QUORUM,  # RemoveRaftVoter
    82: _RAFT,  # UpdateRaftVoter
}
