// The Python face of the thread sweep: ThreadSweep in _sweep.pyi says what goes in and comes out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "id_counts.h"
#include "thread_sweep.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename T>
using Values = py::array_t<T, py::array::c_style>;

// Rows between two looks at the progress when all columns are in memory.
constexpr std::size_t kSliceRows = 1 << 17;

template <typename T>
const T* data_of(const py::handle& column, py::ssize_t rows, const char* table) {
  if (!py::isinstance<Values<T>>(column)) {
    throw ColumnError(std::string(table) + " has columns of other types");
  }
  const auto array = py::reinterpret_borrow<Values<T>>(column);
  if (array.ndim() != 1 || array.size() != rows) {
    throw ColumnError(std::string(table) + " has columns of different lengths");
  }
  return array.data();
}

std::unique_ptr<RowSource> memory_source(const py::tuple& columns, SweepTable table) {
  const char* name = kTableNames[table];
  if (columns.size() != 4) throw ColumnError(std::string(name) + " has other columns");
  const auto rows = static_cast<py::ssize_t>(py::len(columns[0]));
  RowBatch batch;
  batch.rows = static_cast<std::size_t>(rows);
  batch.id = data_of<int32_t>(columns[0], rows, name);
  batch.start_ns = data_of<int64_t>(columns[1], rows, name);
  batch.end_ns = data_of<int64_t>(columns[2], rows, name);
  if (table == kOperation) {
    batch.value = data_of<int32_t>(columns[3], rows, name);
    return make_memory_source(batch, sizeof(int32_t), kSliceRows);
  }
  batch.value = data_of<uint8_t>(columns[3], rows, name);
  return make_memory_source(batch, sizeof(uint8_t), kSliceRows);
}

ArrowArrayStream* stream_of(const py::object& capsule) {
  void* stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
  if (stream == nullptr) throw py::error_already_set();
  return static_cast<ArrowArrayStream*>(stream);
}

std::unique_ptr<RowSource> source_of(const py::object& rows, SweepTable table) {
  if (py::isinstance<py::tuple>(rows)) return memory_source(rows, table);
  return make_stream_source(stream_of(rows), kTableNames[table], table == kOperation ? "i" : "C");
}

std::vector<SweptThread> threads_of(const std::array<py::array, 6>& columns) {
  const py::ssize_t count = columns[0].size();
  const auto* process_id = data_of<int32_t>(columns[0], count, "thread");
  const auto* thread_id = data_of<int32_t>(columns[1], count, "thread");
  const auto* start_ns = data_of<int64_t>(columns[2], count, "thread");
  const auto* end_ns = data_of<int64_t>(columns[3], count, "thread");
  const auto* state_is_measured = data_of<bool>(columns[4], count, "thread");
  const auto* gpu_from_ns = data_of<int64_t>(columns[5], count, "thread");
  std::vector<SweptThread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (py::ssize_t i = 0; i < count; ++i) {
    threads.push_back({thread_id[i], process_id[i], start_ns[i], end_ns[i], state_is_measured[i],
                       gpu_from_ns[i]});
  }
  return threads;
}

// One column of a result, by a function of each row.
template <typename T, typename Row, typename Get>
Values<T> column_of(const std::vector<Row>& rows, Get get) {
  Values<T> column(static_cast<py::ssize_t>(rows.size()));
  T* out = column.mutable_data();
  for (const Row& row : rows) *out++ = get(row);
  return column;
}

py::tuple columns_of(const std::vector<ThreadTotal>& rows) {
  return py::make_tuple(
      column_of<int32_t>(rows, [](const ThreadTotal& row) { return row.thread_id; }),
      column_of<uint64_t>(rows, [](const ThreadTotal& row) { return row.total.key; }),
      column_of<int64_t>(rows, [](const ThreadTotal& row) { return row.total.time_ns; }),
      column_of<int64_t>(rows, [](const ThreadTotal& row) { return row.total.count; }),
      column_of<int64_t>(rows, [](const ThreadTotal& row) { return row.total.first_ns; }),
      column_of<int64_t>(rows, [](const ThreadTotal& row) { return row.total.last_ns; }));
}

py::tuple columns_of(const std::vector<SweptEnds>& rows) {
  return py::make_tuple(
      column_of<int32_t>(rows, [](const SweptEnds& row) { return row.thread_id; }),
      column_of<int64_t>(rows, [](const SweptEnds& row) { return row.ends.start_ns; }),
      column_of<int64_t>(rows, [](const SweptEnds& row) { return row.ends.end_ns; }),
      column_of<uint64_t>(rows, [](const SweptEnds& row) { return row.ends.first_key; }),
      column_of<uint64_t>(rows, [](const SweptEnds& row) { return row.ends.last_key; }));
}

py::dict faults_of(const SweepResult& result) {
  py::dict faults;
  for (std::size_t table = 0; table < kTables; ++table) {
    const RowFaults& found = result.faults[table];
    faults[kTableNames[table]] =
        py::make_tuple(found.outside, found.clipped, found.reversed, found.crossing);
  }
  return faults;
}

py::tuple sweep(const std::array<py::array, 6>& thread_columns,
                const std::array<py::object, kTables>& tables, int64_t window_start_ns,
                int64_t window_end_ns, const ProbedSince& probed_ns, SweepProgress* progress,
                SegmentWriter* segments) {
  const std::vector<SweptThread> threads = threads_of(thread_columns);
  // Closed with the GIL held, as the streams of a Python object expect.
  SweepSources sources;
  for (std::size_t table = 0; table < kTables; ++table) {
    sources[table] = source_of(tables[table], static_cast<SweepTable>(table));
  }
  SweepResult result;
  {
    const py::gil_scoped_release release;
    result = sweep_threads(threads, window_start_ns, window_end_ns, probed_ns, sources, progress,
                           segments);
  }
  return py::make_tuple(columns_of(result.overlap), columns_of(result.transitions),
                        columns_of(result.samples), columns_of(result.ends), faults_of(result));
}

py::tuple count(const py::object& capsule, const std::string& table) {
  // Closed with the GIL held, as the streams of a Python object expect.
  ArrowBatches batches(stream_of(capsule), table, {"i"});
  IdCounts counts;
  {
    const py::gil_scoped_release release;
    counts = count_ids(&batches);
  }
  return py::make_tuple(std::move(counts.rows), counts.nulls);
}

}  // namespace

void bind_thread_sweep(py::module_& module) {
  py::register_exception<OrderError>(module, "OrderError");
  py::register_exception<ColumnError>(module, "ColumnError");
  py::register_exception<Cancelled>(module, "Cancelled");
  py::class_<SweepProgress>(module, "SweepProgress")
      .def(py::init<>())
      .def_property_readonly("rows",
                             [](const SweepProgress& progress) { return progress.rows.load(); })
      .def("cancel", [](SweepProgress& progress) { progress.is_cancelled.store(true); });
  module.def("sweep_threads", &sweep, py::arg("threads"), py::arg("tables"), py::kw_only(),
             py::arg("window_start_ns"), py::arg("window_end_ns"), py::arg("probed_ns"),
             py::arg("progress"), py::arg("segments") = nullptr);
  module.def("count_ids", &count, py::arg("stream"), py::arg("table"));
}

}  // namespace rls
