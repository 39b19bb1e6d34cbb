"""Record batch v2: header, checks, build, iterate, compress, Arrow columns."""
