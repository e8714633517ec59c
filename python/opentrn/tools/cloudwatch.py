"""neuron-monitor-cloudwatch: the reports of neuron-monitor as metrics of Amazon CloudWatch.

Metrics and labels are those of the exporter for Prometheus (src/monitor/companion_metrics.h), labels as dimensions;
counters are what the period added. boto3 finds the account as it always does, and AWS_ENDPOINT_URL_CLOUDWATCH names
another service than AWS's. An error is told by its code: what it says may hold parts of a request.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from typing import Any

from opentrn import _core
from opentrn.errors import InputError, MissingModule
from opentrn.tools import reports

_DATA_MAX = 1000  # of PutMetricData
_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._\-/#: ]{1,255}")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")


def data_of(report: dict[str, Any], at: datetime.datetime) -> list[dict[str, Any]]:
    """Entries of MetricData. InputError for what is no report."""
    return [
        {"MetricName": name, "Dimensions": [{"Name": key, "Value": text} for key, text in dimensions],
         "Timestamp": at, "Value": value, "Unit": unit}
        for name, unit, dimensions, value in _core.cloudwatch_data(json.dumps(report))
    ]  # fmt: skip


def _client(region: str) -> Any:
    try:
        import boto3
    except ImportError as error:
        raise MissingModule(
            "neuron-monitor-cloudwatch needs the package boto3",
            name="boto3",
            label="tools.cloudwatch",
            hint="pip install boto3",
        ) from error
    return boto3.client("cloudwatch", region_name=region)


def run(namespace: str, region: str) -> int:
    """Sends until standard input ends. Raises InputError "tools.cloudwatch" and, without boto3, MissingModule."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(
            f"--namespace {namespace[:40]!r} is none of CloudWatch's",
            label="tools.cloudwatch",
            hint="letters, digits and ._-/#:, and none of AWS's own (AWS/...)",
        )
    if not _REGION.fullmatch(region):
        raise InputError(f"--region {region[:40]!r} is none", label="tools.cloudwatch", hint="as in us-west-2")
    client = _client(region)

    def take(report: dict[str, Any]) -> None:
        data = data_of(report, datetime.datetime.now(datetime.timezone.utc))
        for i in range(0, len(data), _DATA_MAX):
            send(client, namespace, data[i : i + _DATA_MAX])

    return reports.each("neuron-monitor-cloudwatch", take)


def send(client: Any, namespace: str, data: list[dict[str, Any]]) -> None:
    """One request. An error of boto3's is told on standard error by its code, and the data are lost, as AWS's are."""
    try:
        client.put_metric_data(Namespace=namespace, MetricData=data)
    except Exception as error:
        if not type(error).__module__.startswith("botocore"):
            raise
        response = getattr(error, "response", None) or {}
        code = response.get("Error", {}).get("Code") or type(error).__name__
        print(f"neuron-monitor-cloudwatch: {len(data)} values are lost: {str(code)[:60]}", file=sys.stderr)
