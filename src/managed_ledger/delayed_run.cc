#include "managed_ledger/delayed_run.h"

#include <algorithm>

#include "managed_ledger/await_append.h"
#include "managed_ledger/varint.h"

namespace geminga {

namespace {

// The first byte of each entry.
constexpr char kBlock = 1;
constexpr char kPositions = 2;
constexpr char kFooter = 3;
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kPositionsBytes = 48 << 10;

// Each item from the one before: due time, ledger, entry.
void put_item(std::string& to, const DelayedItem& before, const DelayedItem& item) {
  put_signed_varint(to, item.due_ms - before.due_ms);
  put_signed_varint(to, item.position.ledger - before.position.ledger);
  put_signed_varint(to, item.position.ledger == before.position.ledger
                            ? item.position.entry - before.position.entry
                            : item.position.entry);
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// Reads onto `item`, which holds the one before. Items rise.
bool get_item(std::string_view& from, DelayedItem& item) {
  const DelayedItem before = item;
  std::int64_t due = 0;
  std::int64_t ledger = 0;
  std::int64_t entry = 0;
  if (!get_signed_varint(from, due) || !get_signed_varint(from, ledger) ||
      !get_signed_varint(from, entry)) {
    return false;
  }
  item.due_ms = sum(before.due_ms, due);
  item.position.ledger = sum(before.position.ledger, ledger);
  item.position.entry = ledger == 0 ? sum(before.position.entry, entry) : entry;
  return before < item && item.position.ledger >= 0 && item.position.entry >= 0;
}

Status malformed(LedgerId ledger, std::string_view what) {
  return Status::Corruption("ledger " + std::to_string(ledger) +
                            " of the delayed index: " + std::string(what) + " is malformed");
}

Task<Result<std::string>> read_entry(Ledger& ledger, EntryId entry) {
  auto entries = co_await ledger.read(entry, 1, SIZE_MAX);
  if (!entries) co_return entries.status();
  if (entries->empty()) co_return malformed(ledger.id(), "an entry");
  co_return std::string(entries->front().data.view());
}

}  // namespace

std::size_t DelayedRun::block_after(const DelayedItem& item) const {
  if (last_ <= item) return blocks();
  const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), item);
  const auto block = static_cast<std::size_t>(behind - firsts_.begin());
  return block == 0 ? 0 : block - 1;
}

Task<Result<std::vector<DelayedItem>>> DelayedRun::read_block(std::size_t block) const {
  std::shared_ptr<Ledger> ledger = ledger_;
  const auto expected = std::min<std::int64_t>(items_ - items_before(block), kItemsPerBlock);
  auto bytes = co_await read_entry(*ledger, static_cast<EntryId>(block));
  if (!bytes) co_return bytes.status();
  std::string_view left = *bytes;
  std::uint64_t count = 0;
  const bool named = !left.empty() && left.front() == kBlock;
  if (named) left.remove_prefix(1);
  if (!named || !get_varint(left, count) || count != static_cast<std::uint64_t>(expected))
    co_return malformed(ledger->id(), "a block");
  std::vector<DelayedItem> items;
  items.reserve(count);
  DelayedItem item;
  for (; count > 0; --count) {
    if (!get_item(left, item)) co_return malformed(ledger->id(), "an item");
    items.push_back(item);
  }
  co_return items;
}

Status DelayedRun::decode_footer(std::string_view left, std::uint64_t& set_parts) {
  std::uint64_t version = 0;
  std::uint64_t items = 0;
  std::uint64_t blocks = 0;
  const bool named = !left.empty() && left.front() == kFooter;
  if (named) left.remove_prefix(1);
  if (!named || !get_varint(left, version) || version != kVersion || !get_varint(left, items) ||
      !get_varint(left, blocks) || !get_varint(left, set_parts)) {
    return malformed(id(), "the footer");
  }
  // An item takes three bytes at least; so none of the numbers can be made up.
  const auto entries = static_cast<std::uint64_t>(ledger_->last_confirmed() + 1);
  if (blocks == 0 || blocks > left.size() || blocks + set_parts + 1 != entries ||
      items > blocks * kItemsPerBlock || items <= (blocks - 1) * kItemsPerBlock) {
    return malformed(id(), "the footer");
  }
  items_ = static_cast<std::int64_t>(items);
  firsts_.reserve(blocks);
  DelayedItem item;
  for (; blocks > 0; --blocks) {
    if (!get_item(left, item)) return malformed(id(), "the footer");
    firsts_.push_back(item);
  }
  // The last item may be the first of the last block.
  last_ = item;
  std::uint64_t differs = 0;
  if (!get_varint(left, differs)) return malformed(id(), "the footer");
  if (differs != 0 && !get_item(left, last_)) return malformed(id(), "the footer");
  return Status::ok();
}

Task<Result<std::shared_ptr<DelayedRun>>> DelayedRun::open(LedgerStore& store, LedgerId id,
                                                           PositionSet& held) {
  auto ledger = co_await store.open(id);
  if (!ledger) co_return ledger.status();
  std::shared_ptr<DelayedRun> run(new DelayedRun);
  run->ledger_ = std::move(*ledger);
  const EntryId last = run->ledger_->last_confirmed();
  if (last < 0) co_return malformed(id, "the footer");
  auto footer = co_await read_entry(*run->ledger_, last);
  if (!footer) co_return footer.status();
  std::uint64_t set_parts = 0;
  const Status decoded = run->decode_footer(*footer, set_parts);
  if (!decoded) co_return decoded;
  for (EntryId at = last - static_cast<EntryId>(set_parts); at < last;) {
    auto parts = co_await run->ledger_->read(at, static_cast<std::size_t>(last - at), 1 << 20);
    if (!parts) co_return parts.status();
    if (parts->empty()) co_return malformed(id, "a set of positions");
    at += static_cast<EntryId>(parts->size());
    for (const LedgerEntry& part : *parts) {
      std::string_view left = part.data.view();
      std::uint64_t of_ledger = 0;
      const bool named = !left.empty() && left.front() == kPositions;
      if (named) left.remove_prefix(1);
      if (!named || !get_varint(left, of_ledger) ||
          !held.merge_encoded(static_cast<LedgerId>(of_ledger), left)) {
        co_return malformed(id, "a set of positions");
      }
    }
  }
  co_return run;
}

// ---- writing ----

void DelayedRunWriter::add(const DelayedItem& item) {
  if (run_->items_ > 0 && run_->last_ == item) return;
  if (block_.empty()) run_->firsts_.push_back(item);
  block_.push_back(item);
  run_->last_ = item;
  ++run_->items_;
  held_.insert(item.position);
}

Task<Status> DelayedRunWriter::append(std::string bytes) {
  if (run_->ledger_ == nullptr) {
    auto created = co_await store_.create(metadata_);
    if (!created) co_return created.status();
    run_->ledger_ = std::move(*created);
  }
  co_return co_await append_and_wait(run_->ledger_, Buffer::copy_of(bytes), 0);
}

Task<Status> DelayedRunWriter::write_block() {
  std::string bytes(1, kBlock);
  put_varint(bytes, block_.size());
  DelayedItem before;
  for (const DelayedItem& item : block_) {
    put_item(bytes, before, item);
    before = item;
  }
  block_.clear();
  co_return co_await append(std::move(bytes));
}

Task<Result<std::shared_ptr<DelayedRun>>> DelayedRunWriter::finish() {
  if (!block_.empty()) {
    const Status written = co_await write_block();
    if (!written) co_return written;
  }
  std::uint64_t set_parts = 0;
  for (const auto& [ledger, set] : held_.ledgers()) {
    std::vector<std::string> parts = set.encode(kPositionsBytes);
    for (const std::string& part : parts) {
      std::string bytes(1, kPositions);
      put_varint(bytes, static_cast<std::uint64_t>(ledger));
      bytes += part;
      const Status written = co_await append(std::move(bytes));
      if (!written) co_return written;
      ++set_parts;
    }
  }
  held_.clear();
  std::string footer(1, kFooter);
  put_varint(footer, kVersion);
  put_varint(footer, static_cast<std::uint64_t>(run_->items_));
  put_varint(footer, run_->firsts_.size());
  put_varint(footer, set_parts);
  DelayedItem before;
  for (const DelayedItem& first : run_->firsts_) {
    put_item(footer, before, first);
    before = first;
  }
  const bool differs = run_->last_ != before;
  put_varint(footer, differs ? 1 : 0);
  if (differs) put_item(footer, before, run_->last_);
  Status written = co_await append(std::move(footer));
  if (written) written = co_await run_->ledger_->seal();
  if (!written) co_return written;
  run_->firsts_.shrink_to_fit();
  co_return run_;
}

Task<void> DelayedRunWriter::abandon() {
  // Should this fail, the ledger is one that nobody names: the next start removes it.
  if (run_->ledger_ != nullptr) (void)co_await store_.remove(run_->ledger_->id());
}

}  // namespace geminga
