"""Log compaction: only the last record of each key is kept.

    plan.py            which part of a log may be cleaned, and whether it is due
    key_offsets.py     the last offset of each key in the dirty part
    record_filter.py   which records and batches are kept
    transactions.py    the transactions that the filter encounters
    segment_files.py   the cleaned segment while it is written
    job.py             a cleaning, in steps that run in another thread


Offsets never change, so readers see gaps. Each replica cleans its own log. ottla.storage.segments.swap
replaces the old segments by the cleaned one.
"""
