// rlscope_analysis._perfetto: writes the slices of a timeline as protobuf packets or JSON events.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "perfetto_chrome.h"
#include "perfetto_pass.h"
#include "perfetto_proto.h"

namespace py = pybind11;

namespace rls::timeline {

namespace {

using KeyTuple = std::vector<std::optional<int64_t>>;
using NameTuple =
    std::tuple<int64_t, std::string, std::string, std::vector<std::pair<std::string, std::string>>>;
using ArgumentTuple =
    std::tuple<std::string, std::optional<std::unordered_map<int64_t, std::string>>>;

Key make_key(const KeyTuple& parts) {
  if (parts.size() > kMaxKeys) throw std::invalid_argument("too many keys");
  Key key;
  key.fill(kNull);
  for (size_t i = 0; i < parts.size(); ++i) key[i] = parts[i].value_or(kNull);
  return key;
}

Name make_name(const NameTuple& parts) {
  Name name;
  std::tie(std::ignore, name.text, name.category, name.arguments) = parts;
  return name;
}

// A format with the pass that is under way in it.
class Writer {
 public:
  explicit Writer(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}

  void begin_pass() { pass_ = std::make_unique<Pass>(*sink_); }

  void add_track(const KeyTuple& key, Track track) {
    pass().add_track(make_key(key), std::move(track));
  }

  void add_source(const py::object& producer, bool is_gpu, int64_t keys,
                  const std::vector<NameTuple>& names, const NameTuple& unknown,
                  const std::vector<ArgumentTuple>& arguments, int64_t correlation) {
    Source source;
    source.shape = is_gpu ? Shape::kGpu : Shape::kSlice;
    source.keys = keys;
    source.correlation = correlation;
    source.names.reserve(names.size());
    for (const NameTuple& parts : names) source.names.emplace(std::get<0>(parts), make_name(parts));
    source.unknown = make_name(unknown);
    for (const auto& [label, words] : arguments) {
      Argument argument;
      argument.label = label;
      argument.is_coded = words.has_value();
      if (words) argument.words = *words;
      source.arguments.push_back(std::move(argument));
    }
    const auto columns = source.first_argument() + static_cast<int64_t>(arguments.size());
    const py::capsule capsule = producer.attr("__arrow_c_stream__")();
    auto* stream =
        static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (stream == nullptr) throw py::error_already_set();
    source.stream = std::make_unique<ColumnStream>(stream, columns);
    pass().add_source(std::move(source));
  }

  // Returns about `bytes` of output; empty at the end of the pass.
  py::bytes next(size_t bytes) {
    std::string& output = sink_->output();
    while (output.empty() && pass().run(bytes)) {
    }
    py::bytes chunk(output);
    output.clear();
    return chunk;
  }

  int64_t rows() { return pass().rows(); }
  int64_t unplaced() { return pass().unplaced(); }

 private:
  Pass& pass() {
    if (pass_ == nullptr) throw std::logic_error("begin_pass was not called");
    return *pass_;
  }

  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Pass> pass_;
};

Track make_track(std::string name, int64_t group, uint64_t correlation_scope, uint64_t uuid,
                 uint64_t parent_uuid, int32_t rank, int64_t pid, int64_t tid,
                 const py::bytes& constant) {
  Track track;
  track.name = std::move(name);
  track.group = group;
  track.correlation_scope = correlation_scope;
  track.uuid = uuid;
  track.parent_uuid = parent_uuid;
  track.rank = rank;
  track.pid = pid;
  track.tid = tid;
  track.constant = constant;
  return track;
}

}  // namespace

void bind(py::module_& module) {
  using namespace pybind11::literals;
  py::class_<Writer>(module, "Writer", "Turns queries into the bytes of a timeline file")
      .def_static(
          "perfetto",
          [](uint64_t first_uuid, uint64_t first_specification) {
            return Writer(std::make_unique<ProtoSink>(first_uuid, first_specification));
          },
          "first_uuid"_a, "first_specification"_a)
      .def_static(
          "chrome",
          [](int64_t first_tid) { return Writer(std::make_unique<ChromeSink>(first_tid)); },
          "first_tid"_a)
      .def("begin_pass", &Writer::begin_pass)
      .def(
          "add_track",
          [](Writer& writer, const KeyTuple& key, std::string name, int64_t group, uint64_t scope,
             uint64_t uuid, uint64_t parent_uuid, int32_t rank, int64_t pid, int64_t tid,
             const py::bytes& constant) {
            writer.add_track(key, make_track(std::move(name), group, scope, uuid, parent_uuid, rank,
                                             pid, tid, constant));
          },
          "key"_a, "name"_a, py::kw_only(), "group"_a = 0, "scope"_a = 0, "uuid"_a = 0,
          "parent_uuid"_a = 0, "rank"_a = 0, "pid"_a = 0, "tid"_a = 0, "constant"_a = py::bytes())
      .def("add_source", &Writer::add_source, "producer"_a, py::kw_only(), "is_gpu"_a, "keys"_a,
           "names"_a, "unknown"_a, "arguments"_a, "correlation"_a)
      .def("next", &Writer::next, "bytes"_a)
      .def_property_readonly("rows", &Writer::rows)
      .def_property_readonly("unplaced", &Writer::unplaced);
}

}  // namespace rls::timeline

PYBIND11_MODULE(_perfetto, module) {
  module.doc() = "Timeline files of rlscope-trace: Perfetto's protobuf and Chrome's JSON";
  rls::timeline::bind(module);
}
