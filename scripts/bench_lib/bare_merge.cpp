// The plainest merge that gives a thread's time by operation, layer, state and GPU: a yardstick for
// the sweep of rlscope_analysis on the machine at hand. It knows no waits, no transitions, no
// counts, no windows and no faults, and takes any order on trust.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr std::size_t kOperations = 80;  // more than the synthetic trace has
constexpr std::size_t kLayers = 8;
constexpr std::size_t kStates = 4;
constexpr std::size_t kDepth = 64;

}  // namespace

extern "C" {

// Rows of one thread, or of one process; in the order of their starts.
struct BareRows {
  const int64_t* start_ns;
  const int64_t* end_ns;
  const int32_t* value;
  int64_t rows;
};

struct BareThread {
  BareRows states;
  BareRows operations;
  BareRows calls;
  BareRows activities;
};

int64_t bare_merge(const BareThread* threads, int64_t count);
}

namespace {

class Stack {
 public:
  explicit Stack(const BareRows& rows) : rows_(rows) {}

  int64_t next_ns() const { return std::min(start_ns(), end_ns_[depth_]); }
  int32_t value() const { return value_[depth_]; }
  void step(int64_t now_ns) {
    if (end_ns_[depth_] == now_ns) {
      --depth_;
    } else {
      ++depth_;
      end_ns_[depth_] = rows_.end_ns[row_];
      value_[depth_] = rows_.value[row_++];
    }
  }

 private:
  int64_t start_ns() const { return row_ < rows_.rows ? rows_.start_ns[row_] : kNever; }

  BareRows rows_;
  int64_t row_ = 0;
  std::size_t depth_ = 0;
  std::array<int64_t, kDepth> end_ns_{kNever};
  std::array<int32_t, kDepth> value_{};
};

// The instants at which the GPU gets busy and idle in turn.
std::vector<int64_t> edges_of(const BareRows& rows) {
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < rows.rows; ++i) {
    if (edges.empty() || rows.start_ns[i] > edges.back()) {
      edges.push_back(rows.start_ns[i]);
      edges.push_back(rows.end_ns[i]);
    } else {
      edges.back() = std::max(edges.back(), rows.end_ns[i]);
    }
  }
  edges.push_back(kNever);
  return edges;
}

int64_t sum_of_thread(const BareThread& thread, const std::vector<int64_t>& edges) {
  std::vector<int64_t> time_ns(kOperations * kLayers * kStates * 2);
  Stack calls(thread.calls);
  Stack operations(thread.operations);
  int32_t state = 0;
  int64_t state_row = 0;
  std::size_t edge = 0;
  int64_t before_ns = 0;
  while (true) {
    const int64_t state_ns =
        state_row < thread.states.rows ? thread.states.start_ns[state_row] : kNever;
    const int64_t now_ns = std::min({calls.next_ns(), operations.next_ns(), state_ns, edges[edge]});
    if (now_ns == kNever) break;
    const auto key = static_cast<std::size_t>((operations.value() * 8 + calls.value()) * 4 + state);
    time_ns[key * 2 + edge % 2] += now_ns - before_ns;
    before_ns = now_ns;
    if (now_ns == calls.next_ns()) {
      calls.step(now_ns);
    } else if (now_ns == edges[edge]) {
      ++edge;
    } else if (now_ns == state_ns) {
      state = thread.states.value[state_row++];
    } else {
      operations.step(now_ns);
    }
  }
  int64_t sum_ns = 0;
  for (const int64_t time : time_ns) sum_ns += time;
  return sum_ns;
}

}  // namespace

// Returns the time of all threads in ns, so that nothing can be left out.
int64_t bare_merge(const BareThread* threads, int64_t count) {
  int64_t sum_ns = 0;
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < count; ++i) {
    if (i == 0 || threads[i].activities.start_ns != threads[i - 1].activities.start_ns) {
      edges = edges_of(threads[i].activities);
    }
    sum_ns += sum_of_thread(threads[i], edges);
  }
  return sum_ns;
}
