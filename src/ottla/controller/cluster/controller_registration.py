"""Decides ControllerRegistration: controllers report their listeners and supported features."""

from __future__ import annotations

from ottla.controller.context import Context
from ottla.machines.outcome import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ottla.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from ottla.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


def decide_register_controller(
    context: Context, request: ControllerRegistrationRequest
) -> Outcome[ControllerRegistrationResponse]:
    """A registration replaces the previous one; an identical one writes nothing."""
    offered = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in request.features
    }
    for name, level in context.image.features.items():
        low, high = offered.get(name, (0, 0))
        if not low <= level <= high:
            text = f"The controller supports {name} from {low} to {high}; the cluster has {level}."
            code = ErrorCode.UNSUPPORTED_VERSION
            return Outcome(ControllerRegistrationResponse(error_code=code, error_message=text))
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in offered.items()
        ],
    )
    known = context.image.controllers.get(request.controller_id)
    return Outcome(
        ControllerRegistrationResponse(error_message=None), records=[] if known == record else [record]
    )
