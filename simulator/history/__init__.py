"""The history of a run: operations and reads of clients, and of consumer groups and transactions."""
