// rlscope_analysis._critical_path: the walk along what held an iteration up.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "critical_path.h"

namespace py = pybind11;

namespace rls {
namespace {

// Columns of one table, which stay where numpy has them.
class Columns {
 public:
  Columns(const py::tuple& columns, std::size_t width, const char* table)
      : columns_(columns), table_(table) {
    if (columns.size() != width) throw PathOrderError(table_);
    if (width > 0) rows_ = py::len(columns[0]);
  }

  std::size_t rows() const { return rows_; }

  template <typename T>
  const T* at(std::size_t column) const {
    using Column = py::array_t<T, py::array::c_style>;
    if (!py::isinstance<Column>(columns_[column])) throw py::type_error(table_);
    const auto array = py::reinterpret_borrow<Column>(columns_[column]);
    if (array.ndim() != 1 || static_cast<std::size_t>(array.size()) != rows_) {
      throw py::value_error(table_);
    }
    return array.data();
  }

 private:
  const py::tuple& columns_;
  const char* table_;
  std::size_t rows_ = 0;
};

StateColumns states_of(const py::tuple& given) {
  const Columns c(given, 7, "thread_state_coded");
  return {c.rows(),         c.at<int32_t>(0), c.at<int64_t>(1), c.at<int64_t>(2),
          c.at<uint8_t>(3), c.at<int16_t>(4), c.at<uint8_t>(5), c.at<int32_t>(6)};
}

WaitColumns waits_of(const py::tuple& given) {
  const Columns c(given, 5, "wait_coded");
  return {c.rows(),         c.at<int32_t>(0), c.at<int64_t>(1),
          c.at<int64_t>(2), c.at<uint8_t>(3), c.at<bool>(4)};
}

OtherRunColumns other_runs_of(const py::tuple& given) {
  const Columns c(given, 4, "other_run");
  return {c.rows(), c.at<int16_t>(0), c.at<int64_t>(1), c.at<int64_t>(2), c.at<int32_t>(3)};
}

QuotaColumns quotas_of(const py::tuple& given) {
  const Columns c(given, 2, "cpu_quota_wait");
  return {c.rows(), c.at<int32_t>(0), c.at<int64_t>(1)};
}

MessageColumns messages_of(const py::tuple& given) {
  const Columns c(given, 5, "early_message");
  return {c.rows(),         c.at<int32_t>(0), c.at<int64_t>(1),
          c.at<int64_t>(2), c.at<int32_t>(3), c.at<uint8_t>(4)};
}

std::vector<PathThread> threads_of(const py::tuple& given) {
  const Columns c(given, 5, "thread");
  std::vector<PathThread> rows;
  for (std::size_t i = 0; i < c.rows(); ++i) {
    rows.push_back({c.at<int32_t>(0)[i], c.at<int32_t>(1)[i], c.at<int64_t>(2)[i],
                    c.at<int64_t>(3)[i], c.at<bool>(4)[i]});
  }
  return rows;
}

std::vector<PathActivity> activities_of(const py::tuple& given) {
  const Columns c(given, 7, "gpu_activity_coded");
  std::vector<PathActivity> rows;
  rows.reserve(c.rows());
  for (std::size_t i = 0; i < c.rows(); ++i) {
    rows.push_back({c.at<int32_t>(0)[i], c.at<int32_t>(1)[i], c.at<int64_t>(2)[i],
                    c.at<int64_t>(3)[i], c.at<int64_t>(4)[i], c.at<int32_t>(5)[i],
                    c.at<int64_t>(6)[i]});
  }
  return rows;
}

std::vector<PathSync> syncs_of(const py::tuple& given) {
  const Columns c(given, 6, "cuda_call_coded");
  std::vector<PathSync> rows;
  rows.reserve(c.rows());
  for (std::size_t i = 0; i < c.rows(); ++i) {
    rows.push_back({c.at<int32_t>(0)[i], c.at<int64_t>(1)[i], c.at<int64_t>(2)[i],
                    c.at<int32_t>(3)[i], c.at<int32_t>(4)[i], c.at<int64_t>(5)[i]});
  }
  return rows;
}

std::vector<PathEvent> events_of(const py::tuple& given) {
  const Columns c(given, 6, "gpu_event_wait");
  std::vector<PathEvent> rows;
  rows.reserve(c.rows());
  for (std::size_t i = 0; i < c.rows(); ++i) {
    rows.push_back({c.at<int32_t>(0)[i], c.at<int32_t>(1)[i], c.at<int64_t>(2)[i],
                    c.at<int64_t>(3)[i], c.at<int64_t>(4)[i], c.at<int64_t>(5)[i]});
  }
  return rows;
}

std::vector<PathIteration> iterations_of(const py::tuple& given) {
  const Columns c(given, 3, "iteration");
  std::vector<PathIteration> rows;
  for (std::size_t i = 0; i < c.rows(); ++i) {
    rows.push_back({c.at<int32_t>(0)[i], c.at<int64_t>(1)[i], c.at<int64_t>(2)[i]});
  }
  return rows;
}

// One column of the pieces, by a function of each.
template <typename T, typename Get>
py::array_t<T> column_of(const std::vector<PathPiece>& pieces, Get get) {
  py::array_t<T> column(static_cast<py::ssize_t>(pieces.size()));
  T* out = column.mutable_data();
  for (const PathPiece& piece : pieces) *out++ = get(piece);
  return column;
}

py::dict columns_of(const std::vector<PathPiece>& pieces) {
  using P = PathPiece;
  py::dict columns;
  columns["iteration"] = column_of<int32_t>(pieces, [](const P& p) { return p.iteration; });
  columns["start_ns"] = column_of<int64_t>(pieces, [](const P& p) { return p.start_ns; });
  columns["end_ns"] = column_of<int64_t>(pieces, [](const P& p) { return p.end_ns; });
  columns["thread_id"] = column_of<int32_t>(pieces, [](const P& p) { return p.thread_id; });
  columns["activity"] = column_of<int64_t>(pieces, [](const P& p) { return p.activity; });
  columns["cause"] =
      column_of<uint8_t>(pieces, [](const P& p) { return static_cast<uint8_t>(p.cause); });
  columns["by_thread_id"] = column_of<int32_t>(
      pieces, [](const P& p) { return p.cause == Cause::kCpuTakenByOther ? 0 : p.by; });
  columns["by_program_id"] = column_of<int32_t>(
      pieces, [](const P& p) { return p.cause == Cause::kCpuTakenByOther ? p.by : 0; });
  columns["wait"] = column_of<uint8_t>(pieces, [](const P& p) { return p.wait; });
  columns["waiter_thread_id"] = column_of<int32_t>(pieces, [](const P& p) { return p.waiter; });
  return columns;
}

py::dict walk_back(const py::tuple& threads, const py::tuple& states, const py::tuple& waits,
                   const py::tuple& other_runs, const py::tuple& quotas, const py::tuple& messages,
                   const py::tuple& activities, const py::tuple& syncs, const py::tuple& events,
                   const py::tuple& iterations) {
  const PathInput input{states_of(states),         waits_of(waits),       other_runs_of(other_runs),
                        quotas_of(quotas),         messages_of(messages), threads_of(threads),
                        activities_of(activities), syncs_of(syncs),       events_of(events),
                        iterations_of(iterations)};
  std::vector<PathPiece> pieces;
  {
    const py::gil_scoped_release release;
    pieces = critical_path(input);
  }
  return columns_of(pieces);
}

}  // namespace
}  // namespace rls

PYBIND11_MODULE(_critical_path, module) {
  module.doc() = "Critical path of rlscope-trace: what held each iteration up, at every instant";
  py::register_exception<rls::PathOrderError>(module, "PathOrderError", PyExc_RuntimeError);
  module.def("walk_back", &rls::walk_back, py::kw_only(), py::arg("threads"), py::arg("states"),
             py::arg("waits"), py::arg("other_runs"), py::arg("quotas"), py::arg("messages"),
             py::arg("activities"), py::arg("syncs"), py::arg("events"), py::arg("iterations"));
}
