"""The public plugin API: all that a rule, reader, engine, model or report needs, in one place.

Everything here is re-exported; built-in rules import nothing else. Names that are not here may
change without notice.
"""

from shardlint.engine import Engine, refuses
from shardlint.footprint import Footprint, Settings, Sized
from shardlint.known import Always, Case, Known, Never, Sometimes, Text, Undecided, combine, decide
from shardlint.linter import Run, lint
from shardlint.memory_rule import MemoryRule, gib, parts_of, ranks_of
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Flag,
    Fleet,
    KvBudget,
    KvGroup,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Neighbour,
    Options,
    Placement,
    Ranks,
    Reading,
    Refusal,
    Refused,
    Releases,
    Remark,
    Router,
    ServingPlan,
    SharedMemory,
    Site,
    at_most,
    divides,
    divides_either,
)
from shardlint.plugins import (
    ConstraintRule,
    Finding,
    Fix,
    Found,
    LayoutRule,
    Note,
    Plugins,
    Problem,
    ReadContext,
    Reader,
    ReadResult,
    Related,
    Repair,
    Report,
    Result,
    Rule,
    RunFacts,
    Unused,
    World,
    accepted,
    hookimpl,
    says,
)
from shardlint.project import Project, Setup
from shardlint.source import Edit, Mapped, Origin, Position, Source, Span, apply

__all__ = [
    "NO_OPTIONS", "Always", "Case", "Constraint", "ConstraintRule", "Device", "Edit", "Engine",
    "Finding", "Fix", "Flag", "Fleet", "Footprint", "Found", "Known", "KvBudget", "KvGroup",
    "Launch", "Layout", "LayoutFacts", "LayoutRule", "Mapped", "Memory", "MemoryRule",
    "ModelFacts", "Neighbour", "Never", "Note", "Options", "Origin", "Placement", "Plugins",
    "Position", "Problem", "Project", "Ranks", "ReadContext", "ReadResult", "Reader", "Reading",
    "Refusal", "Refused", "Related", "Releases", "Remark", "Repair", "Report", "Result", "Router",
    "Rule", "Run", "RunFacts", "ServingPlan", "Settings", "Setup", "SharedMemory", "Site", "Sized",
    "Sometimes", "Source", "Span", "Text", "Undecided", "Unused", "World", "accepted", "apply",
    "at_most", "combine", "decide", "divides", "divides_either", "gib", "hookimpl", "lint",
    "parts_of", "ranks_of", "refuses", "says",
]  # fmt: skip
