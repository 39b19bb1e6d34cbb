"""Decides on the life of brokers: registration, heartbeats, silence, leaving.

    registered, fenced --heartbeat, caught up with its registration--> active
    active --silent for the session timeout, or on request--> fenced
    active --requests shutdown--> in controlled shutdown --leads nothing--> may stop

A broker that stopped cleanly says so when it registers (`previous_broker_epoch`). One that did not may
have lost the end of its logs, so it does not count as in sync any more.

A broker's epoch is the offset of the record of its registration, so it grows with every start of the
broker and distinguishes old commands from current ones.
"""
