#include "set_overlap.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "set_overlap_input.h"
#include "set_overlap_operations.h"

namespace rls {
namespace {

// A window with less to do than this is not worth a thread.
constexpr std::size_t kWindowIntervals = 65536;

template <class Rows>
class SortedRows final : public OverlapResult {
 public:
  // `codes`: what the categories of the sweep are called outside.
  SortedRows(WindowRows<Rows> all, std::vector<std::int32_t> codes)
      : all_(std::move(all)), codes_(std::move(codes)) {
    SortRows();
    SortTransitions();
  }

  const Row& row(std::size_t position) const override { return all_.store.rows[order_[position]]; }

  void AppendCodes(std::size_t position, std::vector<std::int32_t>* codes) const override {
    all_.store.ForEachMember(row(position),
                             [&](std::uint32_t code) { codes->push_back(codes_[code]); });
  }

 private:
  struct SortKey {
    Time begin;  // of the owner: no two own the same instant
    std::uint64_t set;
    RowId id;
  };

  void SortRows() {
    const std::vector<Row>& rows = all_.store.rows;
    std::unordered_map<Owner, Time> begins;
    for (RowId id = kGap + 1; id < rows.size(); ++id) {
      const Tally& tally = rows[id].tally;
      if (tally.time_ns > INT64_MAX) throw std::overflow_error("a time exceeds 2^63 ns");
      Time& begin = begins.emplace(rows[id].owner, tally.first_ns).first->second;
      begin = std::min(begin, tally.first_ns);
    }
    std::vector<SortKey> keys;
    keys.reserve(rows.size());
    for (RowId id = kGap + 1; id < rows.size(); ++id) {
      keys.push_back({begins.at(rows[id].owner), all_.store.SortKeyOf(rows[id]), id});
    }
    std::sort(keys.begin(), keys.end(), [&](const SortKey& a, const SortKey& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      return a.set != b.set ? a.set < b.set : all_.store.IsSetBefore(rows[a.id], rows[b.id]);
    });
    order_.reserve(keys.size());
    for (const SortKey& key : keys) order_.push_back(key.id);
  }

  void SortTransitions() {
    transitions_ = std::move(all_.transitions.all());
    std::vector<RowId> positions(all_.store.rows.size());
    for (std::size_t at = 0; at < order_.size(); ++at) positions[order_[at]] = RowId(at);
    for (Transition& one : transitions_) {
      one.from = positions[one.from];
      one.to = positions[one.to];
    }
    std::sort(transitions_.begin(), transitions_.end(), [](const auto& a, const auto& b) {
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
  }

  WindowRows<Rows> all_;
  std::vector<std::int32_t> codes_;
};

struct Ordered {
  std::vector<IntervalChunk> categories;
  OwnerChunk owners;
  std::size_t owner_count;  // at most
};

template <class Rows>
WindowRows<typename FinalRows<Rows>::Type> SweepWindow(const Ordered& input, Time begin, Time end,
                                                       bool with_transitions) {
  std::deque<IntervalArray> arrays;
  std::vector<IntervalSource*> sources;
  for (const IntervalChunk& all : input.categories) {
    sources.push_back(&arrays.emplace_back(SliceIntervals(all, begin, end)));
  }
  OwnerArray owner(SliceOwners(input.owners, begin, end));
  return SetSweep<Rows>(sources, &owner, input.owner_count, with_transitions).Run(begin, end);
}

// Calls work(0) .. work(count - 1) on `jobs` threads, this one included; rethrows what one threw.
template <class Work>
void RunParallel(std::size_t count, unsigned jobs, Work work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto serve = [&] {
    try {
      for (std::size_t at = next++; at < count; at = next++) work(at);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failing);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min<std::size_t>(jobs, count)) threads.emplace_back(serve);
  } catch (const std::system_error&) {
    // No more threads are to be had: those there are do all the work.
  }
  serve();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

template <class Rows>
WindowRows<typename FinalRows<Rows>::Type> SweepAll(const Ordered& input, std::size_t windows,
                                                    const OverlapOptions& options) {
  using Final = typename FinalRows<Rows>::Type;
  std::vector<Time> bounds = {INT64_MIN};
  const std::vector<Time> cuts = CutTimes(input.categories, windows);
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(INT64_MAX);
  std::deque<WindowRows<Final>> parts;
  for (std::size_t at = 0; at + 1 < bounds.size(); ++at) {
    parts.push_back({Final(0, 0), {}, kGap, kGap});
  }
  RunParallel(parts.size(), options.jobs, [&](std::size_t at) {
    parts[at] = SweepWindow<Rows>(input, bounds[at], bounds[at + 1], options.with_transitions);
  });
  WindowRows<Final> all = std::move(parts.front());
  for (parts.pop_front(); !parts.empty(); parts.pop_front()) all.Append(parts.front());
  return all;
}

template <class Rows>
std::unique_ptr<OverlapResult> Sorted(WindowRows<Rows> all, std::vector<std::int32_t> codes) {
  return std::make_unique<SortedRows<Rows>>(std::move(all), std::move(codes));
}

std::size_t WindowCount(const OverlapOptions& options, std::size_t intervals) {
  if (options.windows != 0) return options.windows;
  if (options.jobs <= 1) return 1;
  // Several per thread, so that one that is late does not keep the others waiting.
  return std::max<std::size_t>(options.jobs, std::min<std::size_t>(std::size_t{4} * options.jobs,
                                                                   intervals / kWindowIntervals));
}

std::size_t OwnerCount(const std::vector<OwnerChange>& changes) {
  Owner greatest = kNone;
  for (const OwnerChange& change : changes) greatest = std::max(greatest, change.owner);
  return std::size_t{greatest} + 1;
}

// Not where an operation bears the name of unannotated time.
bool MayUseTable(const std::vector<OwnerChange>& changes) {
  return std::none_of(changes.begin(), changes.end(), [](const OwnerChange& change) {
    return change.owner == OwnerOf(kUnannotated);
  });
}

}  // namespace

std::unique_ptr<OverlapResult> OverlapArrays(const std::vector<IntervalChunk>& categories,
                                             const OperationChunk& operations,
                                             const OverlapOptions& options) {
  std::vector<std::int32_t> codes;
  std::size_t intervals = 0;
  for (std::size_t code = 0; code < categories.size(); ++code) {
    intervals += categories[code].size;
    if (categories[code].size != 0) codes.push_back(static_cast<std::int32_t>(code));
  }
  const std::size_t windows = WindowCount(options, intervals);
  Ordered input{std::vector<IntervalChunk>(codes.size()), {}, 0};
  std::vector<std::deque<IntervalColumns>> owned(codes.size());
  RunParallel(codes.size(), options.jobs, [&](std::size_t at) {
    const IntervalChunk& all = categories[static_cast<std::size_t>(codes[at])];
    input.categories[at] = OrderIntervals(all, windows > 1, &owned[at]);
  });
  const std::vector<OwnerChange> changes = FlattenOperations(operations);
  input.owners = {changes.data(), changes.size()};
  input.owner_count = OwnerCount(changes);
  if (MayUseTable(changes) && TableRows::Fits(codes.size(), input.owner_count, intervals)) {
    return Sorted(SweepAll<TableRows>(input, windows, options), std::move(codes));
  }
  if (codes.size() <= SmallRows::kMostCategories) {
    return Sorted(SweepAll<SmallRows>(input, windows, options), std::move(codes));
  }
  return Sorted(SweepAll<LargeRows>(input, windows, options), std::move(codes));
}

std::unique_ptr<OverlapResult> OverlapStreams(const std::vector<IntervalSource*>& categories,
                                              OperationSource* operations, bool with_transitions) {
  std::vector<std::int32_t> codes(categories.size());
  std::iota(codes.begin(), codes.end(), 0);
  OwnerArray nobody(OwnerChunk{});
  OperationFlattener flattener(operations);
  OwnerSource* const owner =
      operations == nullptr ? static_cast<OwnerSource*>(&nobody) : &flattener;
  if (codes.size() <= SmallRows::kMostCategories) {
    SetSweep<SmallRows> sweep(categories, owner, 0, with_transitions);
    return Sorted(sweep.Run(INT64_MIN, INT64_MAX), std::move(codes));
  }
  SetSweep<LargeRows> sweep(categories, owner, 0, with_transitions);
  return Sorted(sweep.Run(INT64_MIN, INT64_MAX), std::move(codes));
}

}  // namespace rls
