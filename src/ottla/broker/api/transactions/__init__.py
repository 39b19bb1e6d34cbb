"""APIs of transactions and idempotent producers."""
