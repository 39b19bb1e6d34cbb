"""APIs that brokers and controllers use among themselves."""
