"""Analyses the SQL of a job: reads Spark's analysed plan as values, and checks them."""
