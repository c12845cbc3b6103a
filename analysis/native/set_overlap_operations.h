// Nested operations as a sequence of owners: at every instant the one opened last that is still
// open. Holds the operations that are open, not those that were.
#pragma once

#include "set_overlap_source.h"

namespace rls {

class OperationFlattener final : public OwnerSource {
 public:
  // The source must outlive the flattener. Throws OverlapInputError while reading one that is out
  // of order.
  explicit OperationFlattener(OperationSource* source) : source_(source) {}
  OwnerChunk Next() override;

 private:
  struct Open {
    Time end;
    Owner owner;
  };

  void Check(const OperationChunk& chunk, std::size_t row);
  void CloseUntil(Time until);
  void Emit(Time time, Owner owner);

  OperationSource* source_;
  std::vector<Open> open_;             // the one opened last at the back
  std::vector<OwnerChange> changes_;   // the last one may still be replaced
  std::vector<OwnerChange> released_;  // what the last call handed out
  Time last_start_ = 0;
  Time last_end_ = 0;
  bool started_ = false;
  bool ended_ = false;
};

// All changes of operations in memory, in any order: the order of the arrays is the order in which
// operations with the same start and end were opened.
std::vector<OwnerChange> FlattenOperations(const OperationChunk& operations);

}  // namespace rls
