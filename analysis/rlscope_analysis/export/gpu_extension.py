"""Describes the field that links calls with what the GPU did, for readers older than the field.

perfetto/trace/gpu/gpu_track_event.proto has it since Perfetto 55. A reader that knows neither the
field nor this description counts every use of it as an error of the trace.
"""

from __future__ import annotations

from rlscope_analysis.export.protobuf import message, number, text

_PACKET, _EXTENSION_DESCRIPTOR = 1, 72
_OPTIONAL, _REPEATED = 1, 3
_UINT64, _MESSAGE = 4, 11
_FIELD_NUMBER = 3000


def gpu_correlation_extension() -> bytes:
    """Return a packet that declares TrackEvent.gpu_correlation as Perfetto itself does."""
    correlation = message(
        4,
        text(1, "GpuCorrelation"),
        _field(2, "render_stage_submission_event_ids", 1, _REPEATED, _UINT64),
        _field(2, "render_stage_wait_event_ids", 2, _REPEATED, _UINT64),
    )
    extension = message(
        4,
        text(1, "GpuTrackEvent"),
        _field(
            6,
            "gpu_correlation",
            _FIELD_NUMBER,
            _OPTIONAL,
            _MESSAGE,
            text(2, ".perfetto.protos.TrackEvent"),
            text(6, ".perfetto.protos.GpuCorrelation"),
        ),
    )
    file = message(
        1,
        text(1, "protos/perfetto/trace/gpu/gpu_track_event.proto"),
        text(2, "perfetto.protos"),
        correlation,
        extension,
    )
    return message(_PACKET, message(_EXTENSION_DESCRIPTOR, message(1, file)))


def _field(place: int, name: str, field: int, label: int, kind: int, *more: bytes) -> bytes:
    """Return a FieldDescriptorProto, itself at field `place`."""
    return message(place, text(1, name), number(3, field), number(4, label), number(5, kind), *more)
