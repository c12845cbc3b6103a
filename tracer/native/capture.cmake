# rlscope_trace._capture. libbpf travels in the wheel beside the module, so that users need no
# package of theirs for it (Debian's libbpf.a is not position independent, so it cannot be linked
# in). Zydis, the x86 decoder, travels for the same reason: Debian has no archive of it. libelf, which
# libbpf needs, is the distribution's where this is built, and auditwheel adds it to a wheel that is
# given away; zlib is on every distribution.
file(REAL_PATH "${LIBBPF}" LIBBPF_FILE)
# What reads instructions of x86-64, and what runs a function in another process.
if(ON_X86_64)
  file(REAL_PATH "${LIBZYDIS}" LIBZYDIS_FILE)
  # Its soname ends with the minor version, the name of its file with two more numbers.
  string(REGEX MATCH "libZydis\\.so\\.[0-9]+\\.[0-9]+" LIBZYDIS_SONAME "${LIBZYDIS_FILE}")
  set(OF_MACHINE finder/site_x86_64.cpp inject/call.cpp inject/inject.cpp inject/place.cpp inject/state.cpp
    inject/thread.cpp)
else()
  set(OF_MACHINE finder/site_aarch64.cpp inject/inject_elsewhere.cpp)
endif()

pybind11_add_module(_capture MODULE
  capture_module.cpp
  disk_space.cpp
  held_up.cpp
  perf_right.cpp
  mounts.cpp
  process_stat.cpp
  procfs_ids.cpp
  traced_processes.cpp
  signal_wait.cpp
  capture/bindings.cpp
  capture/bpf_object.cpp
  capture/btf_capture.cpp
  capture/drain.cpp
  capture/live_bindings.cpp
  capture/live_totals.cpp
  capture/message_capture.cpp
  capture/ring_reader.cpp
  capture/spool_writer.cpp
  capture/tracepoint_capture.cpp
  finder/bindings.cpp
  finder/elf.cpp
  finder/finder.cpp
  finder/function_file.cpp
  finder/functions.cpp
  finder/gate.cpp
  finder/objects.cpp
  finder/process.cpp
  finder/runtime.cpp
  finder/scan.cpp
  finder/symbols.cpp
  inject/bindings.cpp
  inject/loaded_object.cpp
  inject/mapped_file.cpp
  inject/maps.cpp
  inject/variable.cpp
  probes/bindings.cpp
  probes/counters.cpp
  probes/drop.cpp
  probes/native_probes.cpp
  probes/probe_link.cpp
  samples/bindings.cpp
  samples/book.cpp
  samples/classifier.cpp
  samples/code.cpp
  samples/files.cpp
  samples/names.cpp
  samples/output.cpp
  samples/process.cpp
  samples/python_offsets.cpp
  samples/sampler.cpp
  samples/thread_self.cpp
  shim/announcements.cpp
  shim/collector.cpp
  shim/collector_bindings.cpp
  shim/collector_end.cpp
  shim/collector_find.cpp
  shim/collector_losses.cpp
  shim/collector_watch.cpp
  shim/foreign_fd.cpp
  shim/live_phases.cpp
  shim/memory.cpp
  shim/watch.cpp
  shim/writer.cpp
  ${OF_MACHINE})
# What Python sees of it is compiled in groups, each with one copy of what pybind11 makes of its
# templates: this takes half the time.
set_target_properties(_capture PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
set_source_files_properties(capture_module.cpp capture/bindings.cpp capture/live_bindings.cpp finder/bindings.cpp
  inject/bindings.cpp PROPERTIES UNITY_GROUP capture)
set_source_files_properties(probes/bindings.cpp samples/bindings.cpp shim/collector_bindings.cpp
  PROPERTIES UNITY_GROUP samples)
target_include_directories(_capture PRIVATE "${REPOSITORY_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_options(_capture PRIVATE -Wall -Wextra -Wconversion)
target_link_libraries(_capture PRIVATE "${LIBBPF}" Threads::Threads)
set_target_properties(_capture PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
install(TARGETS _capture LIBRARY DESTINATION .)
install(FILES "${LIBBPF_FILE}" DESTINATION lib RENAME libbpf.so.1)
if(ON_X86_64)
  target_link_libraries(_capture PRIVATE "${LIBZYDIS}")
  install(FILES "${LIBZYDIS_FILE}" DESTINATION lib RENAME "${LIBZYDIS_SONAME}")
endif()
