// Python's view of the capture half: the two captures, the filter table, the spool and the drain.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <optional>

#include "capture/btf_capture.h"
#include "capture/drain.h"
#include "capture/message_capture.h"
#include "capture/spool_writer.h"
#include "capture/tracepoint_capture.h"
#include "clock.h"
#include "disk_space.h"
#include "held_up.h"
#include "perf_right.h"
#include "signal_wait.h"
#include "traced_processes.h"

namespace py = pybind11;

namespace rls {

void BindLive(py::module_& module);

namespace {

// For a `with` block.
struct HeldRight {
  std::optional<PerfRight> right;
};

using NoGil = py::call_guard<py::gil_scoped_release>;

void AppendClock(SpoolWriter& spool) {
  rls_rec_clock record = {};
  record.kind = RLS_REC_CLOCK;
  record.ts_ns = MonotonicNs();
  record.realtime_ns = ReadClockNs(CLOCK_REALTIME);
  record.boottime_ns = ReadClockNs(CLOCK_BOOTTIME);
  spool.Append(record);
}

void AppendCommand(SpoolWriter& spool, std::uint32_t pid, const std::string& arguments) {
  rls_rec_exec record = {};
  record.kind = RLS_REC_EXEC;
  record.ts_ns = MonotonicNs();
  record.ns_tgid = pid;
  const std::size_t used = std::min(arguments.size(), sizeof(record.args));
  record.args_len = static_cast<rls_u16>(used);
  record.args_total = static_cast<rls_u32>(arguments.size());
  std::memcpy(record.args, arguments.data(), used);
  spool.Append(record);
}

void Finish(SpoolWriter& spool, std::uint64_t end_ns, std::uint64_t missed_runs,
            std::uint64_t failed_updates) {
  spool.progress()->missed_runs = missed_runs;
  spool.progress()->failed_updates = failed_updates;
  spool.progress()->end_ns = end_ns;
  spool.progress()->end_check = ~end_ns;
  spool.Publish();
}

py::dict Counters(SpoolWriter& spool) {
  const SpoolProgress& progress = *spool.progress();
  std::uint64_t records = spool.records_before();
  std::uint64_t lost = spool.lost_before();
  for (std::size_t kind = 0; kind < RLS_REC_KINDS; ++kind) {
    records += progress.records[kind];
    lost += progress.spool_loss[kind].count;
  }
  for (std::size_t row = 0; row < std::size_t{progress.cpus} * RLS_REC_KINDS; ++row)
    lost += spool.ring_loss()[row].count;
  py::dict counters;
  counters["records"] = records;
  counters["lost"] = lost;
  counters["bytes"] = std::uint64_t{progress.bytes};
  counters["write_error"] = spool.write_error();
  return counters;
}

bool EnterThread(ThreadTable& table, std::uint32_t tid, std::uint32_t tgid,
                 std::uint32_t parent_tgid, std::uint64_t born_ns, int off_state, std::uint32_t cpu,
                 const std::string& comm) {
  return table.Enter(
      {tid, tgid, parent_tgid, born_ns, static_cast<rls_off_state>(off_state), cpu, comm});
}

void BindCaptures(py::module_& module) {
  py::class_<BtfCapture>(module, "BtfCapture")
      .def(py::init<const std::string&, std::uint32_t>(), py::arg("object_path"),
           py::arg("ring_bytes"))
      .def("attach", &BtfCapture::Attach)
      .def("mark", &BtfCapture::Mark, py::arg("pidfd"))
      .def("enter_existing", &BtfCapture::EnterExisting)
      .def("detach", &BtfCapture::Detach, NoGil())
      .def("close_open", &BtfCapture::CloseOpen)
      .def("tell_open", [](BtfCapture& capture) { return py::bytes(capture.TellOpen()); })
      .def_property_readonly("ring_fd", &BtfCapture::RingFd)
      .def_property_readonly("loss_fd", &BtfCapture::LossFd)
      .def_property_readonly("threads_fd", &BtfCapture::ThreadsFd)
      .def("missed_runs", &BtfCapture::MissedRuns)
      .def("failed_updates", &BtfCapture::FailedUpdates);
  py::class_<MessageCapture>(module, "MessageCapture")
      .def(py::init<const std::string&, int, int, int, bool>(), py::arg("object_path"),
           py::kw_only(), py::arg("threads_fd"), py::arg("ring_fd"), py::arg("loss_fd"),
           py::arg("of_pipes"))
      .def("detach", &MessageCapture::Detach, NoGil());
  py::class_<TracepointCapture>(module, "TracepointCapture")
      .def(py::init<const std::string&, std::uint32_t,
                    const std::map<std::string, std::uint32_t>&>(),
           py::arg("object_path"), py::arg("ring_bytes"), py::arg("offsets"))
      .def("attach", &TracepointCapture::Attach, py::arg("only") = std::vector<std::string>())
      .def("detach", &TracepointCapture::Detach, NoGil())
      .def_property_readonly("ring_fd", &TracepointCapture::RingFd)
      .def_property_readonly("loss_fd", &TracepointCapture::LossFd)
      .def_property_readonly("threads_fd", &TracepointCapture::ThreadsFd)
      .def_property_readonly("control_fd", &TracepointCapture::ControlFd)
      .def("missed_runs", &TracepointCapture::MissedRuns);
  py::class_<ThreadTable>(module, "ThreadTable")
      .def(py::init<int, int>(), py::arg("threads_fd"), py::arg("control_fd"))
      .def("enter", &EnterThread, py::kw_only(), py::arg("tid"), py::arg("tgid"),
           py::arg("parent_tgid"), py::arg("born_ns"), py::arg("off_state"), py::arg("cpu"),
           py::arg("comm"))
      .def("close_open", &ThreadTable::CloseOpen, py::arg("spool"))
      .def("tell_open", [](const ThreadTable& table) { return py::bytes(table.TellOpen()); })
      .def("failed_updates", &ThreadTable::FailedUpdates);
  module.def(
      "wait_signal",
      [](const std::vector<int>& numbers, double timeout_s) {
        Arrived arrived = {};
        {
          const py::gil_scoped_release released;
          arrived = WaitSignal(numbers, timeout_s);
        }
        return py::make_tuple(arrived.number, arrived.code);
      },
      py::arg("numbers"), py::arg("timeout_s"));
  module.def("missed_runs", &MissedRunsOf, py::arg("program_fd"));
  module.def("tracepoint_fields", &TracepointFields);
  module.def("wait_for_running_programs", &WaitForRunningPrograms, NoGil());
}

void BindDrain(py::module_& module) {
  py::class_<TracedProcesses>(module, "TracedProcesses")
      .def(py::init<>())
      .def("add", &TracedProcesses::Add, py::arg("pids"));
  py::class_<HeldUp>(module, "HeldUp")
      .def(py::init<>())
      .def("is_since", &HeldUp::IsSince, py::arg("tid"));
  py::class_<HeldRight>(module, "PerfRight")
      .def(py::init<>())
      .def("__enter__", [](HeldRight& held) { held.right.emplace(); })
      .def("__exit__", [](HeldRight& held, const py::args&) { held.right.reset(); });
  py::class_<DiskSpace>(module, "DiskSpace")
      .def(py::init<const std::string&>(), py::arg("directory"))
      .def(
          "has_room", [](DiskSpace& disk, std::size_t bytes) { return disk.HasRoom(bytes); },
          py::arg("bytes"))
      .def_property_readonly("reserve", &DiskSpace::reserve);
  py::class_<SpoolWriter>(module, "SpoolWriter")
      .def(py::init<const std::string&, std::uint32_t, LiveTotals*>(), py::arg("directory"),
           py::arg("cpus"), py::arg("totals") = nullptr, py::keep_alive<1, 4>())
      .def("rotate", &SpoolWriter::Rotate, py::arg("number"), py::kw_only(), py::arg("missed_runs"),
           py::arg("failed_updates"), NoGil())
      .def("append_clock", &AppendClock)
      .def("append_command", &AppendCommand, py::arg("pid"), py::arg("arguments"))
      .def("finish", &Finish, py::kw_only(), py::arg("end_ns"), py::arg("missed_runs"),
           py::arg("failed_updates"))
      .def("counters", &Counters);
  py::class_<Drain>(module, "Drain")
      .def(py::init<int, int, SpoolWriter*, TracedProcesses*>(), py::arg("ring_fd"),
           py::arg("loss_fd"), py::arg("spool"), py::arg("traced") = nullptr,
           py::keep_alive<1, 4>(), py::keep_alive<1, 5>())
      .def("start", &Drain::Start)
      .def("stop", &Drain::Stop, NoGil())
      .def("empty", &Drain::Empty, NoGil())
      .def_property_readonly("processes", &Drain::processes)
      .def("take_new_pids", &Drain::TakeNewPids)
      .def("take_replaced_pids", &Drain::TakeReplacedPids)
      .def_property_readonly("new_pids_fd", &Drain::new_pids_fd)
      .def("wake", &Drain::Wake);
  module.def("possible_cpus", &PossibleCpus);
}

}  // namespace

void bind_capture(py::module_& module) {
  BindCaptures(module);
  BindLive(module);
  BindDrain(module);
}

}  // namespace rls
