"""Why a figure is behind, kept by hand: what was found by profiling, with the figures of the profile.

The report prints a reason under the figures that it explains; for a figure that is not behind it prints none,
so a reason may stay here until nobody needs it. The first that fits counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Reason(NamedTuple):
    scenario: str  # its name, or a pattern such as "produce*"
    figure: str  # its name, or a pattern such as "*: CPU"
    why: str  # one sentence or more
    profile: str = ""  # the lines that show it, as the profiler printed them, and how to get them again


REASONS: tuple[Reason, ...] = (
    Reason(
        "spark",
        "write 1 KB*",
        "Rows leave the JVM for a Python worker before they leave for the broker, which Spark's own "
        "connector spares itself. Of 3.5 CPU s per million rows 1.6 are spent on that way; the writer "
        "takes 1.9, which is 220 us for each request of two batches of 64 KB, spread over many lines. "
        "With rows of 100 bytes there are ten times as many to a batch, and Ottla is ahead.",
        """
ArrowWriter alone, 250,000 rows (cProfile, which doubles the time; cumulated, of 1.15 s)
 0.44  sendmsg, some of it waiting for the server
 0.22  arrow_to_batches, with 0.06 for timestamps and 0.04 for the views of the columns
 0.10  seal: the header and the CRC, twice, because the sequence number is written later
 0.12  receive and decode the answer
 0.06  the pieces of the request
""",
    ),
    Reason(
        "small",
        "16 connections: rate",
        "Ottla serves from one core, Kafka from all: 28 us of CPU for each of 34,900 requests/s are one "
        "core that is busy, 37 us for each of 40,900/s are one and a half. With the generator on the "
        "same two cores there is no more to have. What a request costs is less in Ottla; where one core "
        "is too few, run more brokers.",
        """
python -m bench.peers --only small --profile      (share of all samples, within)
 85.7%  Connection.buffer_updated
 52.6%    Connection._take_frames: decode and check
 29.9%    ProduceLane.append, with 10.2% in the write of the file
 28.4%    Connection._flush_outbox, nearly all of it in the send of the socket
""",
    ),
    Reason(
        "consume",
        "*: rate",
        "These rates are the client's: confluent-kafka makes a Python object of each record, on one "
        "core. The server works for 0.4 s per GB, which at 360 MB/s is a seventh of one core, and then "
        "waits. kcat, which is written in C, reads the same at 1,500 MB/s from Ottla and 1,230 MB/s from "
        "Kafka.",
        """
python -m bench.peers --only consume --profile    (share of all samples, own time)
 32.1%  SocketSender._send_region: the system call sendfile
  4.8%  SocketSender._wait: until the socket takes more
  2.9%  SocketSender._pump
  the rest in lines of less than 2% each; all of Fetch but the sending is 11.4%
""",
    ),
    Reason(
        "produce",
        "100 B *: rate",
        "The client again: a call of Python for each record of 100 bytes. The server works for 2.2 s per "
        "GB, which at 72 MB/s is a sixth of one core; the rounds of both peers overlap.",
    ),
    Reason(
        "latency",
        "100/s: p50",
        "Level within what the rounds differ by (see the spread; an earlier, shorter run had 1.48 x). At "
        "this rate everybody sleeps between two records: threads of the client and the server are woken "
        "one after the other, with caches that others have used. A record costs the server 560 us then, "
        "and 55 us at 10 MB/s.",
    ),
    Reason(
        "groups",
        "rolling restart of 4, classic:*",
        "Clients of the classic protocol hear of a rebalance with their next heartbeat, which they send "
        "every 3 s, so this tells where in that time the restart fell. Six more runs of each gave 0.07 "
        "to 4.6 s (median 4.5) with Ottla and 2.8 to 4.6 s (median 3.6) with Kafka. Why Ottla meets the "
        "longer of the two cases more often is not known. The KIP-848 protocol, where the server leads, "
        "takes 1 s in Ottla and 5 s in Kafka.",
    ),
)


def reason_of(scenario: str, figure: str, reasons: Sequence[Reason] = REASONS) -> Reason | None:
    for reason in reasons:
        if fnmatchcase(scenario, reason.scenario) and fnmatchcase(figure, reason.figure):
            return reason
    return None
