#include "samples/book.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "process_stat.h"
#include "samples/classifier.h"

namespace rls {
namespace {

constexpr std::uint64_t kSecond = 1000000000;
// A process that used no CPU for so long is read anew when it does.
constexpr std::uint64_t kForgetNs = 60 * kSecond;
constexpr std::uint64_t kForgetIntervalNs = 10 * kSecond;
const std::string kUnknownName = "?";

constexpr std::size_t kStartStack = 28;

// Where the stack of the process began; every exec puts it elsewhere. 0: not known.
std::uint64_t StartStack(pid_t pid) {
  const std::vector<std::uint64_t> numbers = ReadStat(pid);
  return numbers.size() > kStartStack ? numbers[kStartStack] : 0;
}

bool IsAlive(pid_t pid) { return access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0; }

}  // namespace

SampledPython TellPython(int python_fd, pid_t pid, const PythonLayout& layout,
                         std::uint64_t runtime, std::uint16_t self_before) {
  SampledPython python = {&layout, layout.walk};
  python.facts.self_before = self_before;
  python.facts.runtime = runtime;
  python.facts.start_stack = StartStack(pid);
  const auto key = static_cast<std::uint32_t>(pid);
  if (bpf_map_update_elem(python_fd, &key, &python.facts, BPF_ANY) != 0)
    throw std::system_error(errno, std::generic_category(), "noting a Python process");
  return python;
}

std::shared_ptr<SampleBook::Program> SampleBook::ProgramOf(const rls_raw_sample& sample) {
  const auto pid = static_cast<pid_t>(sample.ns_tgid);
  std::shared_ptr<Program>& program = programs_[pid];
  if (program == nullptr || program->born_ns != sample.born_ns ||
      program->exec_id != sample.exec_id) {
    ++counts_.processes;
    program = std::make_shared<Program>(pid, sample.born_ns, sample.exec_id);
    const auto parent = programs_.find(static_cast<pid_t>(sample.ns_parent));
    if (parent != programs_.end() && parent->second != nullptr && parent->second != program &&
        parent->second->exec_id == sample.exec_id) {
      program->process.Inherit(parent->second->process, sample.ts_ns);
      program->parent = parent->second;
    }
  }
  program->last_sample_ns = sample.ts_ns;
  return program;
}

const SampledPython* SampleBook::PythonOf(const rls_raw_sample& sample) {
  const auto own = pythons_.find(static_cast<pid_t>(sample.ns_tgid));
  if (own != pythons_.end()) return &own->second;
  const auto parent = pythons_.find(static_cast<pid_t>(sample.ns_parent));
  if (parent == pythons_.end()) return nullptr;
  // A copy of its parent: noted as such, for the parent may end first.
  const SampledPython python = parent->second;
  bpf_map_update_elem(python_fd_, &sample.ns_tgid, &python.facts, BPF_NOEXIST);
  return &(pythons_[static_cast<pid_t>(sample.ns_tgid)] = python);
}

const std::string* SampleBook::NameOf(std::uint64_t code, std::uint64_t now_ns, Program* program) {
  const std::string* name = program->names->Find(code, now_ns);
  if (name != nullptr) return name;
  const std::shared_ptr<Program> parent = program->parent.lock();
  if (parent != nullptr && parent->names != nullptr) name = parent->names->FindKnown(code);
  if (name != nullptr) return name;
  ++counts_.unnamed_frames;
  return &kUnknownName;
}

std::uint32_t SampleBook::StackOf(const rls_raw_sample& sample, Program* program) {
  if ((sample.flags & RLS_RAW_THREAD_STATE) == 0) return 0;
  const SampledPython* python = PythonOf(sample);
  if (python == nullptr) return 0;
  if (program->names == nullptr)
    program->names = std::make_unique<PythonNames>(program->process, *python->layout);
  program->names->Trim();
  names_.clear();
  const std::size_t count = std::min<std::size_t>(sample.frame_count, RLS_SAMPLE_FRAMES);
  for (std::size_t i = 0; i < count; ++i)
    if (sample.frames[i] != 0) names_.push_back(NameOf(sample.frames[i], sample.ts_ns, program));
  const bool cut = (sample.flags & RLS_RAW_FRAMES_CUT) != 0;
  counts_.cut_stacks += cut;
  counts_.without_python_frames += names_.empty();
  return output_.StackOf(names_, cut);
}

void SampleBook::Add(const rls_raw_sample& sample) {
  rls_rec_sample record = {};
  record.kind = RLS_REC_SAMPLE;
  record.thread_id = sample.thread_id;
  record.ts_ns = sample.ts_ns;
  if ((sample.flags & RLS_RAW_IN_OS_KERNEL) != 0) record.flags = RLS_SAMPLE_IN_OS_KERNEL;
  if (sample.ns_tgid != 0) {
    const std::shared_ptr<Program> program = ProgramOf(sample);
    program->process.Refresh(&files_, sample.ts_ns, false);
    if (program->process.Find(sample.ip) == nullptr)
      program->process.Refresh(&files_, sample.ts_ns, true);
    const Verdict verdict = Classify(sample, program->process);
    record.layer = verdict.layer;
    if (verdict.by_stack) record.flags |= RLS_SAMPLE_BY_STACK;
    record.stack_id = StackOf(sample, program.get());
  }
  ++counts_.samples;
  counts_.unclassified += record.layer == RLS_LAYER_NONE;
  output_.Add(record);
}

void SampleBook::Forget(std::uint64_t now_ns) {
  for (auto at = programs_.begin(); at != programs_.end();) {
    const bool old = now_ns > at->second->last_sample_ns + kForgetNs;
    at = old ? programs_.erase(at) : std::next(at);
  }
  for (auto at = pythons_.begin(); at != pythons_.end();) {
    const auto key = static_cast<std::uint32_t>(at->first);
    if (programs_.count(at->first) != 0 || IsAlive(at->first)) {
      ++at;
      continue;
    }
    bpf_map_delete_elem(python_fd_, &key);
    at = pythons_.erase(at);
  }
}

void SampleBook::Flush(std::uint64_t now_ns) {
  output_.Flush();
  if (now_ns - forgot_ns_ < kForgetIntervalNs) return;
  forgot_ns_ = now_ns;
  Forget(now_ns);
}

}  // namespace rls
