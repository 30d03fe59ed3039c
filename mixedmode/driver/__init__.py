"""A run of a job: its phases, epochs, recovery and rescaling."""
