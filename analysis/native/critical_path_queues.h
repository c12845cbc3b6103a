// Who had the CPUs in whose queues a runnable thread may have stood.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "critical_path_index.h"
#include "critical_path_rows.h"

namespace rls {

// From start_ns on `by` had a CPU, or nobody is known to.
struct CpuPiece {
  int64_t start_ns;
  Cause cause;
  int32_t by;
};

// The queues of one runnable state: that of the CPU which the thread then got and, where nobody had
// that, of the one which it had before.
class CpuQueues {
 public:
  CpuQueues(const PathInput& input, const PathIndex& index, const ThreadRows& of,
            std::size_t state);

  // The last piece of [from_ns, now_ns).
  CpuPiece last_piece(int64_t from_ns, int64_t now_ns) const;

 private:
  // Intervals of one CPU in which it was had: states of traced threads, or stays of others.
  struct Stays {
    const std::vector<std::size_t>* traced;
    Rows others;
  };
  struct Stay {
    int64_t start_ns;
    int64_t end_ns;
    CpuPiece piece;
  };

  void add_cpu(int16_t cpu);
  bool last_stay(const Stays& stays, int64_t from_ns, int64_t now_ns, Stay* stay) const;
  bool last_traced(const std::vector<std::size_t>& rows, int64_t from_ns, int64_t now_ns,
                   Stay* stay) const;
  bool last_other(Rows rows, int64_t now_ns, Stay* stay) const;

  const PathInput& in_;
  const PathIndex& index_;
  const int32_t thread_id_;
  // Of two CPUs the traced threads and the others, in the order in which they are asked.
  std::array<Stays, 4> stays_{};
  std::size_t count_ = 0;
};

}  // namespace rls
