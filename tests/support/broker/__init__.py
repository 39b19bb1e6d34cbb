"""Parts of brokers without sockets."""
