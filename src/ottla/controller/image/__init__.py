"""The cluster image: what the records of the metadata log say."""
