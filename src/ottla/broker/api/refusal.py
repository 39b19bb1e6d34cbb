"""The most common refusal of a whole request."""

from __future__ import annotations

from typing import Any

from ottla.protocol.api import API_BY_KEY
from ottla.protocol.message import Message


def refuse_whole(message: Message, code: int, reason: str = "") -> Any:
    """For responses with one error code, with or without a text, for the whole request."""
    response: Any = API_BY_KEY[message.API_KEY].response_class()()
    response.error_code = code
    if "error_message" in type(response).__slots__:
        response.error_message = reason
    return response
