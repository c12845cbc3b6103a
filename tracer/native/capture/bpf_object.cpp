#include "capture/bpf_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <system_error>

#include "perf_right.h"

namespace rls {
namespace {

// The last warning of libbpf: the reason that an errno alone does not give.
class LastWords {
 public:
  static void Install() {
    static std::once_flag once;
    std::call_once(once, [] { libbpf_set_print(&LastWords::Print); });
  }
  static std::string Take() {
    std::string words;
    words.swap(text());
    while (!words.empty() && words.back() == '\n') words.pop_back();
    return words;
  }

 private:
  static std::string& text() {
    static thread_local std::string text;
    return text;
  }
  static int Print(libbpf_print_level level, const char* format, va_list arguments) {
    if (level != LIBBPF_WARN) return 0;
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, arguments);
    if (length > 0) {
      std::string line(static_cast<std::size_t>(length) + 1, '\0');
      std::vsnprintf(line.data(), line.size(), format, again);
      line.pop_back();
      text() += Shortened(line);
    }
    va_end(again);
    return length;
  }
  // A verifier log can have thousands of lines: what is wrong stands at its end.
  static std::string Shortened(const std::string& line) {
    constexpr std::size_t kHead = 160;
    constexpr std::size_t kTail = 480;
    if (line.size() <= kHead + kTail) return line;
    return line.substr(0, kHead) + " ... " + line.substr(line.size() - kTail);
  }
};

[[noreturn]] void Fail(int error, const std::string& what) {
  const std::string words = LastWords::Take();
  throw std::system_error(error, std::generic_category(),
                          words.empty() ? what : what + " (" + words + ")");
}

bool IsIterator(const bpf_program* program) {
  const char* section = bpf_program__section_name(program);
  return std::strncmp(section, "iter/", 5) == 0;
}

}  // namespace

BpfObject::BpfObject(const std::string& path) {
  LastWords::Install();
  LastWords::Take();
  object_ = bpf_object__open_file(path.c_str(), nullptr);
  if (object_ == nullptr) Fail(errno, "opening " + path);
}

BpfObject::~BpfObject() {
  DetachAll();
  bpf_object__close(object_);
}

bpf_map* BpfObject::FindMap(const std::string& name) const {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object_) {
    const std::string full = bpf_map__name(map);
    // Data sections are called by the object's name and the section: "sched.bpf.rodata".
    const bool section = name[0] == '.' && full.size() >= name.size() &&
                         full.compare(full.size() - name.size(), name.size(), name) == 0;
    if (full == name || section) return map;
  }
  return nullptr;
}

void BpfObject::SetRingBytes(std::uint32_t bytes) {
  bpf_map* map = FindMap("ring");
  if (map == nullptr) Fail(ENOENT, "map ring");
  const int error = bpf_map__set_max_entries(map, bytes);
  if (error != 0) Fail(-error, "setting the ring size");
}

void BpfObject::SetGlobals(const std::string& name, const void* value, std::size_t bytes) {
  bpf_map* map = FindMap(name);
  if (map == nullptr) Fail(ENOENT, "section " + name);
  const int error = bpf_map__set_initial_value(map, value, bytes);
  if (error != 0) Fail(-error, "setting " + name);
}

void BpfObject::ReuseMap(const std::string& name, int fd) {
  bpf_map* map = FindMap(name);
  if (map == nullptr) Fail(ENOENT, "map " + name);
  const int error = bpf_map__reuse_fd(map, fd);
  if (error != 0) Fail(-error, "sharing map " + name);
}

bpf_program* BpfObject::FindProgram(const std::string& name) const {
  bpf_program* program = bpf_object__find_program_by_name(object_, name.c_str());
  if (program == nullptr) Fail(ENOENT, "program " + name);
  return program;
}

void BpfObject::SetAutoload(const std::string& name, bool loads) {
  const int error = bpf_program__set_autoload(FindProgram(name), loads);
  if (error != 0) Fail(-error, "choosing program " + name);
}

void BpfObject::SetProgramType(const std::string& name, std::uint32_t type,
                               std::uint32_t attach_type) {
  bpf_program* program = FindProgram(name);
  bpf_program__set_type(program, static_cast<bpf_prog_type>(type));
  bpf_program__set_expected_attach_type(program, static_cast<bpf_attach_type>(attach_type));
}

void BpfObject::Load() {
  const int error = bpf_object__load(object_);
  if (error != 0) Fail(-error, "loading the BPF programs");
}

void BpfObject::AttachAll() {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object_) {
    if (!IsIterator(program)) Attach(bpf_program__name(program));
  }
}

void BpfObject::DetachAll() noexcept {
  for (const auto& [name, link] : links_) bpf_link__destroy(link);
  links_.clear();
}

void BpfObject::Attach(const std::string& name) {
  bpf_program* program = FindProgram(name);
  const PerfRight right;  // for tracepoints
  bpf_link* link = bpf_program__attach(program);
  if (link == nullptr) Fail(errno, std::string("attaching ") + bpf_program__section_name(program));
  links_.emplace_back(name, link);
}

void BpfObject::Detach(const std::string& name) noexcept {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&](const auto& link) { return link.first == name; });
  if (found == links_.end()) return;
  bpf_link__destroy(found->second);
  links_.erase(found);
}

std::string BpfObject::RunIterator(const std::string& name) {
  bpf_link* link = bpf_program__attach_iter(FindProgram(name), nullptr);
  if (link == nullptr) Fail(errno, "attaching " + name);
  const int fd = bpf_iter_create(bpf_link__fd(link));
  const int create_error = errno;
  std::string written;
  char part[4096];
  ssize_t got = 0;
  while (fd >= 0) {
    got = read(fd, part, sizeof(part));
    if (got > 0) written.append(part, static_cast<std::size_t>(got));
    // EAGAIN: the walk paused to let others run, and goes on with the next read.
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  const int read_error = errno;
  if (fd >= 0) close(fd);
  bpf_link__destroy(link);
  if (fd < 0) Fail(create_error, "running " + name);
  if (got < 0) Fail(read_error, "running " + name);
  return written;
}

int BpfObject::MapFd(const std::string& name) const {
  bpf_map* map = FindMap(name);
  if (map == nullptr) Fail(ENOENT, "map " + name);
  return bpf_map__fd(map);
}

int BpfObject::ProgramFd(const std::string& name) const {
  return bpf_program__fd(FindProgram(name));
}

void BpfObject::ReadGlobals(const std::string& name, void* value) const {
  const std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(MapFd(name), &zero, value) != 0) Fail(errno, "reading " + name);
}

std::uint64_t BpfObject::MissedRuns() const {
  std::uint64_t missed = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object_) {
    missed += MissedRunsOf(bpf_program__fd(program));
  }
  return missed;
}

std::uint64_t MissedRunsOf(int program_fd) {
  bpf_prog_info info = {};
  std::uint32_t bytes = sizeof(info);
  if (bpf_obj_get_info_by_fd(program_fd, &info, &bytes) != 0) return 0;
  return info.recursion_misses;
}

}  // namespace rls
