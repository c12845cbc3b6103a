// Owns one loaded BPF object: opens, loads, attaches and releases it through libbpf.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct bpf_link;
struct bpf_map;
struct bpf_object;
struct bpf_program;

namespace rls {

class BpfObject {
 public:
  // Throws std::system_error when the file is no BPF object.
  explicit BpfObject(const std::string& path);
  BpfObject(const BpfObject&) = delete;
  BpfObject& operator=(const BpfObject&) = delete;
  ~BpfObject();

  // Before Load.
  void SetRingBytes(std::uint32_t bytes);
  // Writes the initial value of the global data section `name` (".rodata").
  void SetGlobals(const std::string& name, const void* value, std::size_t bytes);
  // Lets this object use the map of another one, which is already loaded, as its map `name`.
  void ReuseMap(const std::string& name, int fd);
  // Whether Load loads the program `name`: leave out what this kernel cannot take.
  void SetAutoload(const std::string& name, bool loads);
  // What kind of program `name` is, where its section cannot say it: bpf_prog_type and
  // bpf_attach_type of <linux/bpf.h>.
  void SetProgramType(const std::string& name, std::uint32_t type, std::uint32_t attach_type);

  // Throws std::system_error with the verifier's or libbpf's last words.
  void Load();
  // Attaches every program except iterators.
  void AttachAll();
  void DetachAll() noexcept;
  // One of them. Detach leaves alone a program that is not attached.
  void Attach(const std::string& name);
  void Detach(const std::string& name) noexcept;
  // Runs the iterator program `name` once over all tasks; returns what it wrote.
  std::string RunIterator(const std::string& name);

  int MapFd(const std::string& name) const;
  int ProgramFd(const std::string& name) const;
  // Copies the global data section `name` (".bss") as the programs see it now.
  void ReadGlobals(const std::string& name, void* value) const;
  // Times the OS kernel skipped a program because it was already running on that CPU.
  std::uint64_t MissedRuns() const;

 private:
  bpf_map* FindMap(const std::string& name) const;
  bpf_program* FindProgram(const std::string& name) const;

  bpf_object* object_ = nullptr;
  std::vector<std::pair<std::string, bpf_link*>> links_;  // program, its link
};

// The same of one program, whoever loaded it.
std::uint64_t MissedRunsOf(int program_fd);

}  // namespace rls
