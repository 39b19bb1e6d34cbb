"""Log compaction: of the records with one key only the last stays.

    plan.py            what of a log may be cleaned, and how badly it needs it
    key_offsets.py     the last offset of each key in the part that is dirty
    record_filter.py   which records and batches stay
    transactions.py    what is known of the transactions that the filter comes across
    segment_files.py   the new segment while it is written
    job.py             all of it, a step at a time, in a thread of its own
    swap.py            the new segment in the place of the old ones, safe against a crash at any moment

Offsets never change, so readers see gaps. Each replica cleans its own log, at its own time.
"""
