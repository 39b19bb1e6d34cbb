"""The cluster's metadata as a pure machine: decide commands into records, apply records to an image."""
