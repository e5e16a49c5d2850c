"""Control messages in Spark: what `emit` adds to a write by the sink, and what a micro-batch of `reconcile` takes.

The writes are the same rows, flights as JSON, from the same files into the same emulator. `sink alone` puts the type
byte by SQL and says nothing about watermarks.
A micro-batch of `reconcile` reads one file with what every task tells every partition. Beside it: the same file into
`noop`, and into a `transformWithState` that only counts, which is what Spark itself takes for state in Python.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.emulator import empty
from benchmarks.flights import write_parquet
from benchmarks.report import Report
from benchmarks.rounds import alternate, rates, seconds
from benchmarks.watermarks import START_MS, watermarks
from control_messages.messages import MessageType
from control_messages.spark import Emission, emit, partition_of, reconcile
from tools.azurite import running_azurite
from tools.spark_session import local_spark
