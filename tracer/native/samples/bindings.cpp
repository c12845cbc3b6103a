// Python's view of the sampler.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "samples/code.h"
#include "samples/sampler.h"
#include "samples/thread_self.h"

namespace py = pybind11;

namespace rls {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

// nullopt: the Python functions of this process are sampled from now on. Else why they are not.
std::optional<std::string> NotePython(Sampler& sampler, pid_t pid, const py::dict& runtime) {
  const auto version = runtime["version"].cast<py::sequence>();
  const int major = version[0].cast<int>();
  const int minor = version[1].cast<int>();
  const std::string name = "Python " + std::to_string(major) + '.' + std::to_string(minor);
  if (runtime.contains("free_threaded") && runtime["free_threaded"].cast<bool>())
    return "free-threaded " + name;
  const PythonLayout* layout = FindPythonLayout(major, minor);
  if (layout == nullptr) return name + " is not known";
  const auto address = runtime["runtime_start"].cast<std::uint64_t>();
  const py::gil_scoped_release released;
  const auto self_before = SelfBeforeThreadPointer(pid);
  if (!self_before) return "the C library of the process does not say where its threads are";
  sampler.NotePython(pid, *layout, address, *self_before);
  return std::nullopt;
}

py::dict SamplerCounters(Sampler& sampler) {
  SamplerCounts counts;
  {
    const py::gil_scoped_release released;
    counts = sampler.Counts();
  }
  py::dict counters;
  counters["samples"] = counts.samples.samples;
  counters["unclassified"] = counts.samples.unclassified;
  counters["without_python_frames"] = counts.samples.without_python_frames;
  counters["unnamed_frames"] = counts.samples.unnamed_frames;
  counters["cut_stacks"] = counts.samples.cut_stacks;
  counters["processes"] = counts.samples.processes;
  counters["stacks"] = counts.stacks;
  counters["stacks_left_out"] = counts.stacks_left_out;
  counters["lost"] = counts.lost;
  counters["unread"] = counts.unread;
  counters["cpus"] = counts.cpus;
  counters["late_cpus"] = counts.late_cpus;
  counters["refused_cpus"] = counts.refused_cpus;
  counters["period_ns"] = counts.period_ns;
  return counters;
}

struct CodeBytes {
  explicit CodeBytes(const py::bytes& code) {
    const auto text = code.cast<std::string_view>();
    data = reinterpret_cast<const std::uint8_t*>(text.data());
    count = text.size();
  }

  const std::uint8_t* data;
  std::size_t count;
};

void BindLoopQuestion(py::module_& module, const char* name, decltype(&IsInPauseLoop) ask,
                      std::size_t loop_bytes) {
  module.def(
      name,
      [ask, loop_bytes](const py::bytes& code, std::size_t at) {
        const CodeBytes bytes(code);
        return ask(bytes.data, bytes.count, at, loop_bytes);
      },
      py::arg("code"), py::arg("at"));
}

}  // namespace

void bind_sampler(py::module_& module) {
  py::class_<Sampler>(module, "Sampler")
      .def(py::init<const std::string&, int, int, std::uint32_t, SpoolWriter*, LayerRules>(),
           py::arg("object_path"), py::kw_only(), py::arg("threads_fd"), py::arg("loss_fd"),
           py::arg("hz"), py::arg("spool"), py::arg("rules"), py::keep_alive<1, 6>())
      .def("start", &Sampler::Start)
      .def("note_python", &NotePython, py::arg("pid"), py::arg("runtime"))
      .def("suspend", &Sampler::Suspend, NoGil())
      .def("resume", &Sampler::Resume, NoGil())
      .def("stop", &Sampler::Stop, NoGil())
      .def_property_readonly("is_left_behind", &Sampler::is_left_behind)
      .def("counters", &SamplerCounters);
  // The questions about machine code, for their tests.
  BindLoopQuestion(module, "code_waits", IsInPauseLoop, kLoopBytes);
  BindLoopQuestion(module, "code_waits_busily", IsInBusyLoop, kBusyLoopBytes);
  module.def(
      "code_ends_in_call",
      [](const py::bytes& code) {
        const CodeBytes bytes(code);
        return EndsInCall(bytes.data, bytes.count);
      },
      py::arg("code"));
}

}  // namespace rls
