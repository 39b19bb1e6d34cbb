"""Leader and follower machines of a partition: in-sync replicas and the high watermark."""
