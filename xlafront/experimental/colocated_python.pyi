# Written by `python -m tests.stubs`.
from xlafront.host.colocated_python import colocated_cpu_devices as colocated_cpu_devices
from xlafront.host.colocated_python import colocated_python as colocated_python
from xlafront.host.colocated_python import colocated_python_class as colocated_python_class

