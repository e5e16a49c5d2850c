"""`make pipeline`: all parts of the project as one system, which loses processes and disks while it runs.

arrivals/weather ─ weather ─► streams/weather ─┐
arrivals/flights ─ flights ─► streams/flights ─┴ joined ─► streams/joined ─ days ─► streams/days
arrivals/planes ── planes ──► stores/planes ─────┘

places.py       where everything is: streams, stores, checkpoints, jobs
arrivals.py     the input: files that arrive one after the other; and what the result must be
operators.py    what `joined` and `days` do with the messages of their streams
tasks.py        the five tasks: how each is prepared, started and finished
driver.py       the program of a driver: tasks by coordination
processes.py    the emulator, the cluster and three drivers
faults.py       kills, suspensions and lost disks
observed.py     what the streams and the store show meanwhile
live.py         the view in the terminal
checks.py       what is in storage at the end, beside what must be there
timeline.py     the run as one page of HTML
__main__.py     a run, from the start to its summary
"""
