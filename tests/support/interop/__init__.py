"""Clients of other projects, raw requests and a JVM, for tests of interoperability."""
