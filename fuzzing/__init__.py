"""A peer that does not mean well: recorded requests, what can be done to them, and a watch over the broker.

`-m fuzzing` and the tests of bad input are made of these parts; nothing else imports them.
"""
