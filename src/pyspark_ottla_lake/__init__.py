"""The Spark sink `ottla_lake`: Delta tables, exactly once, without a jar."""
