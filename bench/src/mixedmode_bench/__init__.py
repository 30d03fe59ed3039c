"""The benchmark that `mixedmode bench` runs: the same data for this program and for what people would use instead."""
