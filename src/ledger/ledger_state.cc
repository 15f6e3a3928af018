#include "ledger/ledger_state.h"

#include <algorithm>
#include <utility>

namespace geminga {

const Extent* LedgerState::extent_of(EntryId entry) const {
  auto after = std::upper_bound(extents.begin(), extents.end(), entry,
                                [](EntryId e, const Extent& extent) { return e < extent.first; });
  if (after == extents.begin()) return nullptr;
  const Extent& extent = *std::prev(after);
  return entry <= extent.last ? &extent : nullptr;
}

Run* LedgerState::run_of(EntryId entry) {
  if (runs.empty()) return nullptr;
  if (entry >= runs.back().first) return entry <= runs.back().last() ? &runs.back() : nullptr;
  auto after = std::upper_bound(runs.begin(), runs.end(), entry,
                                [](EntryId e, const Run& run) { return e < run.first; });
  if (after == runs.begin()) return nullptr;
  Run& run = *std::prev(after);
  return entry <= run.last() ? &run : nullptr;
}

void LedgerState::add_run(Run run) {
  auto after = std::upper_bound(runs.begin(), runs.end(), run.first,
                                [](EntryId e, const Run& other) { return e < other.first; });
  const bool overlaps = (after != runs.end() && after->first <= run.last()) ||
                        (after != runs.begin() && std::prev(after)->last() >= run.first);
  if (!overlaps) runs.insert(after, std::move(run));
}

}  // namespace geminga
