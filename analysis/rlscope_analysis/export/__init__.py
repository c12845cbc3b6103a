"""Writes a trace as a timeline file for other viewers: Perfetto's protobuf, Chrome's JSON.

docs/export.md tells what goes where. The slices themselves are written by the native module
`_perfetto`; what is small (processes, threads, facts about the trace) is written here.
"""
