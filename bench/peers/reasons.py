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
        "connector spares itself. Of 2.9 CPU s per million rows about 1.8 are spent until the writer has "
        "them (measured with a sink that throws them away), of which 0.7 are Spark making them. The "
        "writer takes the rest, some 70 us for each batch of 64 KB, which is a request of its own; a "
        "third of that is the kernel's, for sending. In batches of 1 MB, or with rows of 100 bytes, of "
        "which a batch has ten times as many, Ottla is ahead by CPU too.",
        """
ArrowWriter alone, 250,000 rows in 3,975 requests (cProfile, which adds a half; of 0.62 s)
 0.109  sendmsg
 0.060  the header of the batch, with 0.025 for its CRC
 0.040  rows to records
 0.074  the pieces of the request, with 0.034 for its encoding
 0.108  receive and decode the answer
 0.231  the rest, in lines of less than 0.03 each
""",
    ),
    Reason(
        "small",
        "16 connections: rate",
        "Ottla serves from one core, Kafka from all: 25 us of CPU for each of 38,300 requests/s are one "
        "core that is busy, 31 us for each of 50,800/s are one and a half. With the generator on the "
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
        "core. The server works for 0.3 s per GB, which at 450 MB/s is a seventh of one core, and then "
        "waits. kcat, which is written in C, reads the same at 1,830 MB/s from Ottla and 1,490 MB/s from "
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
        "produce",
        "1 KB in 1 MB*: rate",
        "Two of Ottla's five rounds were slow at the same work: 0.9 and 2.1 s of CPU per GB where the "
        "others took 0.5, and 261 MB/s in the worst where the best had 794. So it was seen before when "
        "the virtual machine had to get memory from its host; here it was not traced. By "
        "CPU, and by rate with acks=all, Ottla is ahead.",
    ),
    Reason(
        "clients",
        "Java consumer*: rate",
        "The rate is the client's, and the rounds of both peers overlap: the server works for 0.46 s per "
        "GB, which at 326 MB/s is a seventh of one core.",
    ),
    Reason(
        "latency",
        "100/s: p50",
        "At this rate everybody sleeps between two records, and wakes with caches that others have used. "
        "From the request's last byte to the answer of the waiting consumer the same lines took 112 us "
        "at 2,000/s and 309 us at 100/s.",
        """
timestamps in the server, medians in us, at 100/s and at 2,000/s
 130   45  read, check and append
  35   10  send the acknowledgement
   7    3  turn of the loop
  61   20  the fetch looks again
  14    6  turn of the loop (taken away since)
  62   28  encode and send
""",
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
