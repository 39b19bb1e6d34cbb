"""First versions of fields and behaviours, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

PRODUCE_ZSTD_SINCE = 7  # batches may be compressed with zstd
PRODUCE_CURRENT_LEADER_SINCE = 10  # ProduceResponse.PartitionProduceResponse.current_leader
PRODUCE_TRANSACTION_ABORTABLE_SINCE = 11  # TRANSACTION_ABORTABLE may be returned
PRODUCE_ADDS_PARTITIONS_SINCE = 12  # the first write of a transaction adds the partition to it (KIP-890)
PRODUCE_TOPIC_IDS_SINCE = 13  # ProduceRequest.TopicProduceData.topic_id
FETCH_RACK_SINCE = 11  # FetchRequest.rack_id
FETCH_CURRENT_LEADER_SINCE = 12  # FetchResponse.PartitionData.current_leader
FETCH_TOPIC_IDS_SINCE = 13  # FetchRequest.FetchTopic.topic_id
FETCH_REPLICA_STATE_SINCE = 15  # FetchRequest.replica_state
FETCH_NODE_ENDPOINTS_SINCE = 16  # FetchResponse.node_endpoints
LIST_OFFSETS_LEADER_EPOCH_SINCE = 4  # ListOffsetsResponse.ListOffsetsPartitionResponse.leader_epoch
LIST_OFFSETS_OFFSET_NOT_AVAILABLE_SINCE = 5  # OFFSET_NOT_AVAILABLE may be returned
LIST_OFFSETS_MAX_TIMESTAMP_SINCE = 7  # timestamp -3 asks for the record with the largest timestamp
LIST_OFFSETS_EARLIEST_LOCAL_SINCE = 8  # timestamp -4 asks for the first offset on local disk
LIST_OFFSETS_LATEST_TIERED_SINCE = 9  # timestamp -5 asks for the last offset in remote storage
# timestamp -6 asks for the first offset not yet in remote storage
LIST_OFFSETS_EARLIEST_PENDING_UPLOAD_SINCE = 11
METADATA_NULL_FOR_ALL_TOPICS_SINCE = 1  # MetadataRequest.topics may be null
METADATA_AUTO_CREATION_FLAG_SINCE = 4  # MetadataRequest.allow_auto_topic_creation
METADATA_LISTENER_NOT_FOUND_SINCE = 6  # LISTENER_NOT_FOUND may be returned
METADATA_NULL_TOPIC_NAME_SINCE = 12  # MetadataResponse.MetadataResponseTopic.name may be null
OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE = 9  # GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be returned
OFFSET_COMMIT_TOPIC_IDS_SINCE = 10  # OffsetCommitRequest.OffsetCommitRequestTopic.topic_id
OFFSET_FETCH_GROUP_ERROR_SINCE = 2  # OffsetFetchResponse.error_code
OFFSET_FETCH_REQUIRE_STABLE_SINCE = 7  # OffsetFetchRequest.require_stable
OFFSET_FETCH_GROUPS_SINCE = 8  # OffsetFetchRequest.groups
OFFSET_FETCH_MEMBER_EPOCH_SINCE = 9  # OffsetFetchRequest.OffsetFetchRequestGroup.member_epoch
OFFSET_FETCH_TOPIC_IDS_SINCE = 10  # OffsetFetchRequest.OffsetFetchRequestTopics.topic_id
FIND_COORDINATOR_BATCHES_SINCE = 4  # FindCoordinatorRequest.coordinator_keys
JOIN_GROUP_MEMBER_ID_REQUIRED_SINCE = 4  # a new member gets MEMBER_ID_REQUIRED and its id first (KIP-394)
JOIN_GROUP_SKIP_ASSIGNMENT_SINCE = 9  # JoinGroupResponse.skip_assignment
LEAVE_GROUP_MEMBERS_SINCE = 3  # LeaveGroupRequest.members
SYNC_GROUP_PROTOCOL_NAME_SINCE = 5  # SyncGroupRequest.protocol_name
DESCRIBE_GROUPS_GROUP_ID_NOT_FOUND_SINCE = 6  # DescribeGroupsResponse.DescribedGroup.error_message
LIST_GROUPS_STATES_SINCE = 4  # ListGroupsRequest.states_filter
LIST_GROUPS_TYPES_SINCE = 5  # ListGroupsRequest.types_filter
API_VERSIONS_CLIENT_SOFTWARE_SINCE = 3  # ApiVersionsRequest.client_software_name
API_VERSIONS_FEATURE_LEVEL_ZERO_SINCE = 4  # supported features may have a minimum level of 0
API_VERSIONS_NODE_CHECK_SINCE = 5  # ApiVersionsRequest.cluster_id
DELETE_TOPICS_TOPIC_IDS_SINCE = 6  # DeleteTopicsRequest.topics
INIT_PRODUCER_ID_PRODUCER_FENCED_SINCE = 4  # PRODUCER_FENCED may be returned
INIT_PRODUCER_ID_TWO_PHASE_SINCE = 6  # InitProducerIdRequest.enable2_pc
ADD_PARTITIONS_TO_TXN_PRODUCER_FENCED_SINCE = 2  # PRODUCER_FENCED may be returned
ADD_PARTITIONS_TO_TXN_BATCHES_SINCE = 4  # AddPartitionsToTxnRequest.transactions
END_TXN_PRODUCER_FENCED_SINCE = 2  # PRODUCER_FENCED may be returned
END_TXN_EPOCH_BUMP_SINCE = 5  # EndTxnResponse.producer_epoch
TXN_OFFSET_COMMIT_MEMBER_SINCE = 3  # TxnOffsetCommitRequest.member_id
TXN_OFFSET_COMMIT_TRANSACTION_ABORTABLE_SINCE = 4  # TRANSACTION_ABORTABLE may be returned
# the first write of a transaction adds the partition to it (KIP-890)
TXN_OFFSET_COMMIT_ADDS_PARTITIONS_SINCE = 5
TXN_OFFSET_COMMIT_TOPIC_IDS_SINCE = 6  # TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic.topic_id
TXN_OFFSET_COMMIT_GROUP_ID_NOT_FOUND_SINCE = 6  # GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be returned
DESCRIBE_CONFIGS_DOCUMENTATION_SINCE = 3  # DescribeConfigsRequest.include_documentation
ELECT_LEADERS_ERROR_CODE_SINCE = 1  # ElectLeadersResponse.error_code
# AlterPartitionReassignmentsRequest.allow_replication_factor_change
ALTER_PARTITION_REASSIGNMENTS_KEEP_FACTOR_SINCE = 1
DESCRIBE_QUORUM_DIRECTORIES_SINCE = 2  # DescribeQuorumResponse.nodes
UPDATE_FEATURES_VALIDATE_ONLY_SINCE = 1  # UpdateFeaturesRequest.validate_only
DESCRIBE_CLUSTER_ENDPOINT_TYPE_SINCE = 1  # DescribeClusterRequest.endpoint_type
DESCRIBE_CLUSTER_FENCED_BROKERS_SINCE = 2  # DescribeClusterRequest.include_fenced_brokers
LIST_TRANSACTIONS_DURATION_SINCE = 1  # ListTransactionsRequest.duration_filter
LIST_TRANSACTIONS_PATTERN_SINCE = 2  # ListTransactionsRequest.transactional_id_pattern
CONSUMER_GROUP_HEARTBEAT_PATTERN_SINCE = 1  # ConsumerGroupHeartbeatRequest.subscribed_topic_regex
CONSUMER_GROUP_HEARTBEAT_CLIENT_MEMBER_ID_SINCE = 1  # members choose their own id (KIP-1082)
LIST_CONFIG_RESOURCES_TYPES_SINCE = 1  # ListConfigResourcesRequest.resource_types
