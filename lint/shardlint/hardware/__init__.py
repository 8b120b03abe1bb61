"""Cards, instance types and node labels: from what a file calls a GPU to what the GPU is."""

from shardlint.hardware.errors import HardwareError
from shardlint.hardware.labels import Labels
from shardlint.hardware.option import GpuOption
from shardlint.hardware.table import Devices, Row

__all__ = ["Devices", "GpuOption", "HardwareError", "Labels", "Row"]
