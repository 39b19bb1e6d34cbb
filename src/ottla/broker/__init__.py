"""The broker process: sockets, request handlers, timers and tasks around the pure cores.

Layers; each imports only those below it:

    node          composition root: builds the parts, starts and stops them
    api           one module per Kafka API
    coordinators  host the group and transaction machines on partition leaders
    metadata      Raft driver, committed image, publisher, controller loop, registration
    hosting       appends, applies and replies for one machine over its log
    replicas      partitions, follower fetchers, fetch service, flushing, cleaning
    net           listeners, connections, buffers, connections to other brokers
    identity, metadata_cache, periodic_tasks, randomness   small parts that every layer may use
"""
