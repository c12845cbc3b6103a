// Walks back from the end of each iteration to its start, along what held it up:
// docs/critical_path.md.
#pragma once

#include <vector>

#include "critical_path_rows.h"

namespace rls {

// The pieces of each iteration tile it, to the nanosecond; within one the latest comes first.
// Throws PathOrderError.
std::vector<PathPiece> critical_path(const PathInput& input);

}  // namespace rls
