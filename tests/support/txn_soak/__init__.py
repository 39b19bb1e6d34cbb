"""Worker processes of the transaction soak test."""
