"""APIs of the metadata quorum (KRaft)."""
