"""AlterUserScramCredentialsRequest, written by tools/generate_protocol.py: do not edit."""

from __future__ import annotations

from ottla.protocol.message import Message, Struct, UNSET


class AlterUserScramCredentialsRequest(Message):
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    MAX_STABLE_VERSION = 0
    FLEXIBLE_FROM = 0
    READERS = {}
    WRITERS = {}
    __slots__ = ("deletions", "upsertions")
    SCHEMA = """
        deletions []ScramCredentialDeletion 0+
        upsertions []ScramCredentialUpsertion 0+
    """

    def __init__(self, *,
        deletions: list[ScramCredentialDeletion] = UNSET, upsertions: list[ScramCredentialUpsertion] = UNSET,
    ) -> None:
        self.deletions: list[ScramCredentialDeletion] = [] if deletions is UNSET else deletions
        self.upsertions: list[ScramCredentialUpsertion] = [] if upsertions is UNSET else upsertions


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism")
    SCHEMA = """
        name string 0+
        mechanism int8 0+
    """

    def __init__(self, *, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    SCHEMA = """
        name string 0+
        mechanism int8 0+
        iterations int32 0+
        salt bytes 0+
        salted_password bytes 0+
    """

    def __init__(self, *,
        name: str = "", mechanism: int = 0, iterations: int = 0, salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password
