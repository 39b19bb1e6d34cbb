"""The log directories of a node and all partition logs in them."""
