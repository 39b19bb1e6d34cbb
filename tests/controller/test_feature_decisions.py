"""Feature levels, the minimum of replicas in sync that eligible leaders rest upon, and controllers."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.controller.cluster.configs import decide_incremental_alter_configs
from ottla.controller.cluster.controller_registration import decide_register_controller
from ottla.controller.cluster.update_features import decide_update_features
from ottla.controller.features import ELR_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.controller.partitions.min_isr import decide_settle_min_isr
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest


def update(harness: Any, *levels: tuple[str, int, int], **fields: Any) -> Any:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in levels
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, **fields)
    return harness.take(decide_update_features(harness.context, request))


def set_min_isr(harness: Any, resource_type: int, name: str, value: str | None) -> int:
    config = AlterableConfig(
        name="min.insync.replicas", config_operation=0 if value is not None else 1, value=value
    )
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    reply = harness.take(decide_incremental_alter_configs(harness.context, request))
    code: int = reply.responses[0].error_code
    return code


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        ([(METADATA_VERSION, 30, 1)], ErrorCode.NONE),
        ([(METADATA_VERSION, 31, 1)], ErrorCode.INVALID_UPDATE_VERSION),
        ([(METADATA_VERSION, 29, 1)], ErrorCode.INVALID_UPDATE_VERSION),
        ([(METADATA_VERSION, 29, 2)], ErrorCode.INVALID_UPDATE_VERSION),
        ([(METADATA_VERSION, -1, 2)], ErrorCode.INVALID_UPDATE_VERSION),
        ([("share.version", 1, 1)], ErrorCode.INVALID_UPDATE_VERSION),
        ([(ELR_VERSION, 0, 1)], ErrorCode.INVALID_UPDATE_VERSION),
        ([(ELR_VERSION, 0, 4)], ErrorCode.INVALID_REQUEST),
        ([(ELR_VERSION, 1, 1), (ELR_VERSION, 1, 1)], ErrorCode.INVALID_REQUEST),
        ([], ErrorCode.INVALID_REQUEST),
        ([(ELR_VERSION, 0, 2), (METADATA_VERSION, 31, 1)], ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_levels(cluster: Any, levels: list[tuple[str, int, int]], code: ErrorCode) -> None:
    before = dict(cluster.image.features)
    reply = update(cluster, *levels)
    assert reply.error_code == code
    assert bool(reply.error_message) == (code != 0)
    assert [each.feature for each in reply.results] == ([] if code else [levels[0][0]])
    assert cluster.image.features == before


def test_eligible_leaders_off_and_on(cluster: Any) -> None:
    cluster.create("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    cluster.fence(1)
    assert update(cluster, (ELR_VERSION, 0, 2), validate_only=True).error_code == 0
    assert cluster.image.features[ELR_VERSION] == 1
    assert update(cluster, (ELR_VERSION, 0, 2)).error_code == 0
    partition = cluster.partition("t")
    assert ELR_VERSION not in cluster.image.features
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((2, 1), (), ())
    cluster.heartbeat(1, cluster.image.brokers[1].epoch)
    assert cluster.partition("t").leader == 1
    cluster.fence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (-1, (2,))
    assert update(cluster, (ELR_VERSION, 1, 1)).error_code == 0
    assert cluster.image.cluster_config() == {"min.insync.replicas": "1"}
    cluster.restart(2, clean=False)
    assert cluster.partition("t").leader == 2
    assert len(cluster.lost) == 1, "the one that was waited for crashed: it leads, but the loss is told"


def test_a_lower_minimum_ends_eligibility(cluster: Any) -> None:
    for name, minimum in (("t", "2"), ("u", "2"), ("v", "2")):
        cluster.create(name, [1, 2], min_insync_replicas=minimum)
    cluster.fence(2)
    assert cluster.partition("t").elr == (2,)
    assert set_min_isr(cluster, 2, "t", "1") == 0
    assert cluster.partition("t").elr == ()
    assert set_min_isr(cluster, 4, "", "2") == 0
    assert set_min_isr(cluster, 2, "u", None) == 0
    assert cluster.partition("u").elr == (2,), "the minimum is 2 as before"
    assert set_min_isr(cluster, 4, "", "1") == 0
    assert (cluster.partition("u").elr, cluster.partition("v").elr) == ((), (2,))
    cluster.fence(1)
    assert set_min_isr(cluster, 2, "v", "1") == 0
    assert cluster.partition("v").elr == (2, 1), "without a leader nothing is committed"
    cluster.heartbeat(2, cluster.image.brokers[2].epoch)
    partition = cluster.partition("v")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), ()), "now one commits alone"


def test_one_minimum_for_the_cluster(cluster: Any) -> None:
    assert set_min_isr(cluster, 4, "1", "2") == ErrorCode.INVALID_CONFIG
    cluster.take(decide_settle_min_isr(cluster.context))
    assert cluster.image.cluster_config() == {"min.insync.replicas": "1"}
    assert decide_settle_min_isr(cluster.context).records == []
    assert set_min_isr(cluster, 4, "", None) == ErrorCode.INVALID_CONFIG
    update(cluster, (ELR_VERSION, 0, 2))
    assert set_min_isr(cluster, 4, "", None) == 0
    assert set_min_isr(cluster, 4, "1", "2") == 0
    assert decide_settle_min_isr(cluster.context).records == []
    update(cluster, (ELR_VERSION, 1, 1))
    assert cluster.image.broker_config(1) == {}


def test_controllers_register(cluster: Any) -> None:
    def register(levels: dict[str, tuple[int, int]]) -> Any:
        request = ControllerRegistrationRequest(
            controller_id=7,
            incarnation_id=b"i" * 16,
            listeners=[Listener(name="CONTROLLER", host="h", port=9093)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in levels.items()
            ],
        )
        return cluster.take(decide_register_controller(cluster.context, request))

    assert register({}).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert register(SUPPORTED_FEATURES).error_code == 0
    known: Any = cluster.image.controllers[7]
    assert (known.end_points[0].port, len(known.features)) == (9093, len(SUPPORTED_FEATURES))
    before = len(cluster.log)
    assert register(SUPPORTED_FEATURES).error_code == 0
    assert len(cluster.log) == before
    assert register({**SUPPORTED_FEATURES, ELR_VERSION: (1, 1)}).error_code == 0
    assert update(cluster, (ELR_VERSION, 0, 2)).error_code == ErrorCode.INVALID_UPDATE_VERSION
