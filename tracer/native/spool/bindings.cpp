// The decoder of spools as Python sees it. Arrays are views of memory that C++ owns.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "spool/scan.h"
#include "spool/state_rows.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename Value>
py::array_t<Value> View(const std::vector<Value>& values, std::size_t count, py::handle owner) {
  py::array_t<Value> array(static_cast<py::ssize_t>(count), values.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::dict Records(const SpoolScan& scan) {
  py::dict records;
  for (int kind = RLS_REC_THREAD; kind < RLS_REC_KINDS; ++kind) {
    records[py::int_(kind)] = scan.records()[kind];
  }
  return records;
}

py::list Execs(const SpoolScan& scan) {
  py::list execs;
  for (const ExecFacts& exec : scan.execs()) {
    execs.append(py::make_tuple(exec.ts_ns, exec.thread_id, exec.tid, exec.old_tid, exec.ns_tgid,
                                exec.args_total, py::bytes(exec.filename), py::bytes(exec.args)));
  }
  return execs;
}

py::list TitleTexts(const SpoolScan& scan) {
  py::list texts;
  for (const std::string& text : scan.title_texts()) {
    texts.append(py::bytes(text));
  }
  return texts;
}

// The next rows as columns, or None. The arrays are overwritten by the next call.
py::object NextBatch(py::object self) {
  auto& rows = self.cast<StateRows&>();
  std::size_t count = 0;
  {
    const py::gil_scoped_release release;
    count = rows.NextBatch();
  }
  if (count == 0) {
    return py::none();
  }
  const StateColumns& columns = rows.columns();
  py::dict batch;
  batch["thread_id"] = View(columns.thread_id, count, self);
  batch["start_ns"] = View(columns.start_ns, count, self);
  batch["end_ns"] = View(columns.end_ns, count, self);
  batch["state"] = View(columns.state, count, self);
  batch["cpu"] = View(columns.cpu, count, self);
  batch["waker_kind"] = View(columns.waker_kind, count, self);
  batch["waker_thread_id"] = View(columns.waker_thread_id, count, self);
  batch["wait"] = View(columns.wait, count, self);
  batch["lock_address"] = View(columns.lock_address, count, self);
  batch["is_mutex"] = View(columns.is_mutex, count, self);
  return batch;
}

// Column -> (count, sum, min, max) of all rows handed out so far; None where there is none.
py::dict Totals(const StateRows& rows) {
  static constexpr const char* kColumns[] = {"thread_id", "start_ns",   "end_ns",         "state",
                                             "cpu",       "waker_kind", "waker_thread_id"};
  py::dict totals;
  for (std::size_t column = 0; column < rows.totals().size(); ++column) {
    const ColumnTotals& of_column = rows.totals()[column];
    if (of_column.count == 0) {
      totals[kColumns[column]] = py::make_tuple(0, py::none(), py::none(), py::none());
      continue;
    }
    const py::object sum =
        py::int_(of_column.sum_low) + (py::int_(of_column.sum_high) * py::int_(1LL << 32));
    totals[kColumns[column]] = py::make_tuple(of_column.count, sum, of_column.min, of_column.max);
  }
  return totals;
}

// Name -> (count, first_ns).
py::dict FindingsOf(const StateRows& rows) {
  const Findings& findings = rows.findings();
  py::dict result;
  const auto add = [&result](const char* name, const Finding& finding) {
    result[name] = py::make_tuple(finding.count, finding.first_ns);
  };
  add("inferred_switch_in", findings.inferred_switch_in);
  add("unseen_switch_in", findings.unseen_switch_in);
  add("unseen_wakeup", findings.unseen_wakeup);
  add("gap", findings.gap);
  add("overlap", findings.overlap);
  add("unseen_end", findings.unseen_end);
  add("truncated_thread", findings.truncated_thread);
  return result;
}

std::unique_ptr<StateRows> MakeStateRows(const SpoolScan& scan,
                                         const std::vector<std::uint32_t>& slots,
                                         const std::string& scratch_directory,
                                         std::size_t batch_rows, std::size_t bucket_bytes) {
  if (batch_rows == 0 || bucket_bytes == 0) {
    throw py::value_error("batch_rows and bucket_bytes must be positive");
  }
  for (const std::uint32_t slot : slots) {
    if (slot >= scan.threads().size()) {
      throw py::value_error("no such slot: " + std::to_string(slot));
    }
  }
  return std::make_unique<StateRows>(scan, slots, scratch_directory, batch_rows, bucket_bytes);
}

// ranges: (from_ns, start, end) each; see GilRange.
void SetGil(StateRows* rows, std::size_t position,
            const std::vector<std::tuple<std::int64_t, std::uint64_t, std::uint64_t>>& ranges) {
  std::vector<GilRange> gil;
  for (const auto& [from_ns, start, end] : ranges) gil.push_back({from_ns, start, end});
  rows->SetGil(position, std::move(gil));
}

// Tells numpy of our structs, once. Not at import: numpy takes 0.1 s, and the threads that it
// starts would take signals that the recorder holds back for itself.
void RegisterTypes() {
  static const bool registered = [] {
    PYBIND11_NUMPY_DTYPE(ThreadFacts, start_ns, born_ns, exit_ns, cycles, thread_id, tid, tgid,
                         ns_tid, ns_tgid, creator_thread_id, parent_tgid, exit_status, entered,
                         has_start, has_state, name);
    PYBIND11_NUMPY_DTYPE(ClockFacts, ts_ns, realtime_ns, boottime_ns);
    PYBIND11_NUMPY_DTYPE(TitleFacts, ts_ns, thread_id, text_id);
    PYBIND11_NUMPY_DTYPE(ThreadOutcome, start_ns, end_ns, lost_ns, thread_id, ended);
    return true;
  }();
  (void)registered;
}

std::unique_ptr<SpoolScan> OpenScan(const std::string& records_path, std::int64_t end_ns,
                                    std::int64_t latest_ns, std::int64_t from_ns) {
  RegisterTypes();
  return std::make_unique<SpoolScan>(records_path, end_ns, latest_ns, from_ns);
}

}  // namespace

void bind_spool(py::module_& module) {
  module.attr("WIRE_VERSION") = RLS_WIRE_VERSION;
  py::class_<SpoolScan>(module, "SpoolScan")
      .def(py::init(&OpenScan), py::arg("records_path"), py::kw_only(), py::arg("end_ns"),
           py::arg("latest_ns") = 0, py::arg("from_ns") = 0)
      .def("advance", &SpoolScan::Advance, py::arg("bytes"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("position", &SpoolScan::position)
      .def_property_readonly("file_bytes", &SpoolScan::file_bytes)
      .def_property_readonly("malformed_count", &SpoolScan::malformed)
      .def_property_readonly("unknown_kind_count", &SpoolScan::unknown_kind)
      .def("records", &Records)
      .def("execs", &Execs)
      .def("threads",
           [](const py::object& self) {
             const auto& threads = self.cast<const SpoolScan&>().threads();
             return View(threads, threads.size(), self);
           })
      .def("clocks",
           [](const py::object& self) {
             const auto& clocks = self.cast<const SpoolScan&>().clocks();
             return View(clocks, clocks.size(), self);
           })
      .def_property_readonly("unread_titles", &SpoolScan::unread_titles)
      .def("title_texts", &TitleTexts)
      .def("titles", [](const py::object& self) {
        const auto& titles = self.cast<const SpoolScan&>().titles();
        return View(titles, titles.size(), self);
      });
  py::class_<StateRows>(module, "StateRows")
      .def(py::init(&MakeStateRows), py::arg("scan"), py::kw_only(), py::arg("slots"),
           py::arg("scratch_directory"), py::arg("batch_rows"),
           py::arg("bucket_bytes") = kBucketBytes, py::keep_alive<1, 2>())
      .def("set_left_out", &StateRows::SetLeftOut, py::arg("thread_ids"))
      .def("set_gil", &SetGil, py::arg("position"), py::arg("ranges"))
      .def("prepare", &StateRows::Prepare, py::arg("bytes"),
           py::call_guard<py::gil_scoped_release>())
      .def("next_batch", &NextBatch)
      .def_property_readonly("row_count", &StateRows::rows)
      .def("totals", &Totals)
      .def("findings", &FindingsOf)
      .def("outcomes", [](const py::object& self) {
        const auto& outcomes = self.cast<const StateRows&>().outcomes();
        return View(outcomes, outcomes.size(), self);
      });
}

}  // namespace rls
