"""What a real job leaves behind, explained: flight recorders, traces of kernels, snapshots of memory, logs.

Read `untrusted_file` (how a file is read without running it), then `flight_recorder` (who waits for whom),
`kernel_trace` (exposed and hidden communication), `memory_snapshot` (what fills the memory) and `job_log` (who failed
first). Each takes the contents of files by name and returns a `Report`. Times are in seconds, sizes in bytes.
"""

from course_lib.lazy import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
