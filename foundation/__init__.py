"""What every package stands on and that knows nothing of a storage account: errors, time, threads, locks of a host.

errors          the error tree
arguments       the checks of what public functions are given
clock           the one place that asks the machine for the time
parallel        many calls at once, bounded
host_locks      locks between processes of a host
disk_advice     what to do when a disk is full or read-only
meters          counters and gauges, by OpenTelemetry's API where it is there
report          callbacks of progress
worker_errors   our error in what Spark says of a failed task
worker_modules  modules that Spark's workers keep between tasks
"""
