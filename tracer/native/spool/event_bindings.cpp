// EventRows as Python sees it: each batch owns its columns.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "spool/event_rows.h"

namespace py = pybind11;

namespace rls {
namespace {

// An array that takes the vector over.
template <typename Value>
py::array_t<Value> Owned(std::vector<Value>&& values) {
  auto holder = std::make_unique<std::vector<Value>>(std::move(values));
  const auto size = static_cast<py::ssize_t>(holder->size());
  const Value* data = holder->data();
  py::capsule owner(holder.release(),
                    [](void* vector) { delete static_cast<std::vector<Value>*>(vector); });
  return py::array_t<Value>(size, data, owner);
}

py::dict Calls(CallColumns&& calls) {
  py::dict columns;
  columns["thread_id"] = Owned(std::move(calls.thread_id));
  columns["start_ns"] = Owned(std::move(calls.start_ns));
  columns["end_ns"] = Owned(std::move(calls.end_ns));
  columns["layer"] = Owned(std::move(calls.layer));
  columns["parent_layer"] = Owned(std::move(calls.parent_layer));
  columns["depth"] = Owned(std::move(calls.depth));
  columns["site_id"] = Owned(std::move(calls.site_id));
  columns["flags"] = Owned(std::move(calls.flags));
  return columns;
}

py::dict Releases(ReleaseColumns&& releases) {
  py::dict columns;
  columns["thread_id"] = Owned(std::move(releases.thread_id));
  columns["start_ns"] = Owned(std::move(releases.start_ns));
  columns["end_ns"] = Owned(std::move(releases.end_ns));
  return columns;
}

py::dict Samples(SampleColumns&& samples) {
  py::dict columns;
  columns["thread_id"] = Owned(std::move(samples.thread_id));
  columns["ts_ns"] = Owned(std::move(samples.ts_ns));
  columns["layer"] = Owned(std::move(samples.layer));
  columns["flags"] = Owned(std::move(samples.flags));
  columns["stack_id"] = Owned(std::move(samples.stack_id));
  return columns;
}

py::dict OtherRuns(OtherRunColumns&& runs) {
  py::dict columns;
  columns["cpu"] = Owned(std::move(runs.cpu));
  columns["start_ns"] = Owned(std::move(runs.start_ns));
  columns["end_ns"] = Owned(std::move(runs.end_ns));
  columns["program_id"] = Owned(std::move(runs.program_id));
  return columns;
}

py::dict Quotas(QuotaColumns&& quotas) {
  py::dict columns;
  columns["thread_id"] = Owned(std::move(quotas.thread_id));
  columns["ts_ns"] = Owned(std::move(quotas.ts_ns));
  return columns;
}

py::dict Messages(MessageColumns&& messages) {
  py::dict columns;
  columns["thread_id"] = Owned(std::move(messages.thread_id));
  columns["read_ns"] = Owned(std::move(messages.read_ns));
  columns["sent_ns"] = Owned(std::move(messages.sent_ns));
  columns["sender_thread_id"] = Owned(std::move(messages.sender_thread_id));
  columns["file"] = Owned(std::move(messages.file));
  return columns;
}

// Columns by name, but stacks: (stack_id, bytes), and programs: (program_id, pid, bytes). None at
// the end.
py::object Next(EventRows& rows, std::size_t count) {
  EventBatch batch;
  bool has_rows = false;
  {
    const py::gil_scoped_release released;
    has_rows = rows.Next(count, &batch);
  }
  if (!has_rows) return py::none();
  py::list stacks;
  for (const auto& [stack_id, frames] : batch.stacks)
    stacks.append(py::make_tuple(stack_id, py::bytes(frames)));
  py::dict result;
  result["calls"] = Calls(std::move(batch.calls));
  result["releases"] = Releases(std::move(batch.releases));
  result["samples"] = Samples(std::move(batch.samples));
  result["stacks"] = stacks;
  result["other_runs"] = OtherRuns(std::move(batch.other_runs));
  result["quotas"] = Quotas(std::move(batch.quotas));
  result["messages"] = Messages(std::move(batch.messages));
  py::list programs;
  for (const OtherProgram& program : batch.programs)
    programs.append(py::make_tuple(program.program_id, program.pid, py::bytes(program.name)));
  result["programs"] = programs;
  return result;
}

}  // namespace

void bind_events(py::module_& module) {
  py::class_<EventRows>(module, "EventRows")
      .def(py::init<const SpoolScan&>(), py::arg("scan"), py::keep_alive<1, 2>())
      .def("next_batch", &Next, py::arg("rows"))
      .def_property_readonly("position", &EventRows::position)
      .def_property_readonly("malformed_count", &EventRows::malformed)
      .def_property_readonly("unknown_thread_count", &EventRows::unknown_thread);
}

}  // namespace rls
