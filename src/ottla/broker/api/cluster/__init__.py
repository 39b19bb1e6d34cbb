"""APIs about the cluster as a whole: supported versions, brokers, features, disks."""
