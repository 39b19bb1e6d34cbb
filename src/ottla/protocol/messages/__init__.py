"""One module per message, written by tools/generate_protocol.py: do not edit."""
