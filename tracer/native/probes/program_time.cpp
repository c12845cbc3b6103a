#include "probes/program_time.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <system_error>

#include "clock.h"
#include "probes/run_time_stats.h"

namespace rls {

// Read while no account is kept, the counters stand still; if another one has it kept all the time,
// they go on, and it is the difference that counts.
void ProgramClock::Start() {
  if (fd_ >= 0) return;
  before_ = Read();
  fd_ = EnableRunTimeStats();
  start_ns_ = MonotonicNs();
}

ProgramAccount ProgramClock::Stop() {
  if (fd_ < 0) throw std::system_error(EINVAL, std::generic_category(), "no account is being kept");
  ProgramAccount account;
  account.start_ns = start_ns_;
  account.end_ns = MonotonicNs();
  Close();
  account.programs = Read();
  for (std::size_t index = 0; index < account.programs.size(); ++index) {
    account.programs[index].runs -= before_[index].runs;
    account.programs[index].time_ns -= before_[index].time_ns;
  }
  return account;
}

std::vector<ProgramTime> ProgramClock::Read() const {
  std::map<std::string, ProgramTime> by_name;
  for (const auto& [name, fd] : programs_) {
    bpf_prog_info info = {};
    std::uint32_t bytes = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &bytes) != 0)
      throw std::system_error(errno, std::generic_category(), "asking for the time of " + name);
    ProgramTime& sum = by_name[name];
    sum.name = name;
    sum.runs += info.run_cnt;
    sum.time_ns += info.run_time_ns;
  }
  std::vector<ProgramTime> sums;
  for (const auto& [name, sum] : by_name) sums.push_back(sum);
  return sums;
}

void ProgramClock::Close() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace rls
