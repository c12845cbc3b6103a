#include "id_counts.h"

namespace rls {
namespace {

void count_runs(const int32_t* ids, std::size_t rows, IdCounts* counts) {
  for (std::size_t row = 0; row < rows;) {
    const std::size_t end = find_run_end(ids, row, rows);
    counts->rows[ids[row]] += static_cast<int64_t>(end - row);
    row = end;
  }
}

void count_each(const ArrowArray& batch, const int32_t* ids, IdCounts* counts) {
  for (int64_t row = 0; row < batch.length; ++row) {
    ++(is_null(batch, 0, row) ? counts->nulls : counts->rows[ids[row]]);
  }
}

}  // namespace

IdCounts count_ids(ArrowBatches* batches) {
  IdCounts counts;
  while (const ArrowArray* batch = batches->next()) {
    const auto* ids = values_of<int32_t>(*batch, 0);
    if (may_hold_null(*batch, 0)) {
      count_each(*batch, ids, &counts);
    } else {
      count_runs(ids, static_cast<std::size_t>(batch->length), &counts);
    }
  }
  return counts;
}

}  // namespace rls
