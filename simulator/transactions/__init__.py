"""Transactions: clients, ledger, checkers, faults, scenarios."""
