"""Why Ottla is behind in a figure: the results of profiling, maintained by hand.

The report prints a reason after the figures that it explains, and only if Ottla is behind in them. The first
matching reason is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Reason(NamedTuple):
    scenario: str  # name of the scenario, or a pattern such as "produce*"
    figure: str  # name of the figure, or a pattern such as "*: CPU"
    why: str  # one sentence or more
    profile: str = ""  # evidence: lines of the profiler, and how to reproduce them


REASONS: tuple[Reason, ...] = (
    Reason(
        "spark",
        "write 1 KB*",
        "Rows are copied from the JVM to a Python worker before they are sent to the broker; Spark's own "
        "connector does not need that. Of 2.9 CPU s per million rows, about 1.8 are spent before the writer "
        "gets them (measured with a sink that drops them), of which Spark needs 0.7 to create them. The "
        "writer takes the rest, about 70 us per batch of 64 KB, which is one request; a third of that is "
        "the kernel's work for sending. With batches of 1 MB, or with rows of 100 bytes (ten times as many "
        "per batch), Ottla is ahead in CPU time, too.",
        """
ArrowWriter alone, 250,000 rows in 3,975 requests (cProfile, which adds a half; of 0.62 s)
 0.109  sendmsg
 0.060  the header of the batch, with 0.025 for its CRC
 0.040  rows to records
 0.074  the pieces of the request, with 0.034 for its encoding
 0.108  receive and decode the response
 0.231  the rest, in lines of less than 0.03 each
""",
    ),
    Reason(
        "small",
        "16 connections: rate",
        "Ottla uses one core, Kafka all of them: 38,300 requests/s of 25 us CPU keep one core busy, "
        "50,800/s of 31 us one and a half. The load generator runs on the same two cores, so there is no "
        "capacity left. A request costs less in Ottla; if one core is not enough, run more brokers.",
        """
python -m bench.peers --only small --profile      (share of all samples, cumulative)
 85.7%  Connection.buffer_updated
 52.6%    Connection._take_frames: decode and check
 29.9%    ProduceLane.append, with 10.2% in the write of the file
 28.4%    Connection._flush_outbox, nearly all of it in the send of the socket
""",
    ),
    Reason(
        "consume",
        "*: rate",
        "The client limits these rates: confluent-kafka creates a Python object per record, on one core. "
        "The server needs 0.3 s per GB, which at 450 MB/s is a seventh of one core, and is idle otherwise. "
        "kcat, which is written in C, reads the same data at 1,830 MB/s from Ottla and 1,490 from Kafka.",
        """
python -m bench.peers --only consume --profile    (share of all samples, own time)
 32.1%  SocketSender._send_region: the system call sendfile
  4.8%  SocketSender._wait: until the socket is writable
  2.9%  SocketSender._pump
  the rest in lines of less than 2% each; all of Fetch but the sending is 11.4%
""",
    ),
    Reason(
        "produce",
        "100 B *: rate",
        "The client limits the rate: one Python call per record of 100 bytes. The server needs 2.2 s per "
        "GB, which at 72 MB/s is a sixth of one core; the ranges of both peers overlap.",
    ),
    Reason(
        "produce",
        "1 KB in 1 MB*: rate",
        "Two of Ottla's five rounds were slow with the same work: 0.9 and 2.1 s of CPU per GB instead of "
        "0.5, and 261 MB/s in the worst round against 794 in the best. The same was observed before when the "
        "virtual machine had to get memory from its host; here it was not investigated. In CPU time, and "
        "in rate with acks=all, Ottla is ahead.",
    ),
    Reason(
        "clients",
        "Java consumer*: rate",
        "The client limits the rate, and the ranges of both peers overlap: the server needs 0.46 s per "
        "GB, which at 326 MB/s is a seventh of one core.",
    ),
    Reason(
        "latency",
        "100/s: p50",
        "At this rate all processes sleep between two records, and wake up with cold caches. From the last "
        "byte of the request to the response to the waiting consumer, the same code took 112 us at 2,000/s "
        "and 309 us at 100/s.",
        """
timestamps in the server, medians in us, at 100/s and at 2,000/s
 130   45  read, check and append
  35   10  send the acknowledgement
   7    3  loop iteration
  61   20  the fetch reads again
  14    6  loop iteration (removed since)
  62   28  encode and send
""",
    ),
    Reason(
        "groups",
        "rolling restart of 4, classic:*",
        "Clients of the classic protocol learn about a rebalance from their next heartbeat, which they send "
        "every 3 s, so the figure depends on when in that interval the restart happens. Six more runs of "
        "each took 0.07 to 4.6 s (median 4.5) with Ottla and 2.8 to 4.6 s (median 3.6) with Kafka. Why the "
        "longer case is more frequent with Ottla is not known. The KIP-848 protocol, in which the server "
        "coordinates, takes 1 s with Ottla and 5 s with Kafka.",
    ),
)


def reason_of(scenario: str, figure: str, reasons: Sequence[Reason] = REASONS) -> Reason | None:
    for reason in reasons:
        if fnmatchcase(scenario, reason.scenario) and fnmatchcase(figure, reason.figure):
            return reason
    return None
