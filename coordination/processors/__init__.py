"""Processors share the tasks of a job: liveness, job model, barrier, and what each of them does next."""
