"""What a job's SQL means: Spark's analysed plan as values, and the judgement of them."""
