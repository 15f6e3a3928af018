#include "managed_ledger/delayed_index.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/async.h"

namespace geminga {

namespace {

// Left-overs looked at in one call of collect().
constexpr std::size_t kMostLookedAt = 8192;
// Items of the buffer and blocks of runs looked at in one check, which asks every subscription
// about each; while there is something to remove the next check comes soon.
constexpr std::size_t kCheckedItems = 2048;
constexpr std::size_t kCheckedBlocks = 2;
constexpr std::int64_t kSoonMs = 50;

}  // namespace

DelayedIndex::DelayedIndex(ManagedLedgerEnv env, std::string ledger_name,
                           DelayedIndexOptions options, Done done, Wake wake)
    : env_(env),
      ledger_name_(std::move(ledger_name)),
      path_(path_of(ledger_name_)),
      options_(options),
      done_(std::move(done)),
      wake_(std::move(wake)),
      ripe_ms_(now_ms()),
      checked_ms_(ripe_ms_) {}

DelayedIndex::~DelayedIndex() = default;

bool DelayedIndex::add(std::int64_t due_ms, Position position) {
  if (held_.contains(position)) return true;
  if (full() || closing_) {
    ++counters_.refused;
    refused_ = true;
    work();
    return false;
  }
  ++counters_.added;
  held_.insert(position);
  buffer_.insert({due_ms, position});
  if (buffer_.size() >= options_.max_buffered) work();
  if (armed_ms_ == 0 || due_ms < armed_ms_) arm();
  return true;
}

void DelayedIndex::clear() {
  const bool any = !held_.empty() || !buffer_.empty() || !frozen_.empty() || !runs_.empty();
  held_.clear();
  buffer_.clear();
  frozen_.clear();
  blocks_.clear();
  for (const auto& run : runs_) dropped_.push_back(run->id());
  key_behind_ = key_behind_ || !runs_.empty();
  runs_.clear();
  refused_ = false;
  if (any) {
    ++revision_;
    wake_later();
  }
  work();
}

// ---- blocks ----

DelayedIndex::Block DelayedIndex::loaded(const std::shared_ptr<DelayedRun>& run, std::size_t block,
                                         bool start) {
  for (Loaded& candidate : blocks_) {
    if (candidate.run != run || candidate.block != block) continue;
    candidate.used = ++uses_;
    return candidate.items;
  }
  if (start) start_read(run, block);
  return nullptr;
}

void DelayedIndex::start_read(const std::shared_ptr<DelayedRun>& run, std::size_t block) {
  if (closing_ || now_ms() < read_retry_ms_) return;
  make_room_for_block();
  blocks_.push_back({run, block, nullptr, ++uses_});
  spawn(*env_.shard, gate_, [this, run, block, revision = revision_]() -> Task<void> {
    co_await read(run, block, revision);
  });
}

void DelayedIndex::make_room_for_block() {
  const std::size_t most = std::max(options_.blocks_in_memory, 2 * runs_.size());
  while (blocks_.size() >= most) {
    auto oldest = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      if (it->items != nullptr && (oldest == blocks_.end() || it->used < oldest->used)) oldest = it;
    }
    if (oldest == blocks_.end()) return;  // all are being read
    blocks_.erase(oldest);
  }
}

Task<void> DelayedIndex::read(std::shared_ptr<DelayedRun> run, std::size_t block,
                              std::uint64_t revision) {
  // What it brings must not change the index under whoever asked for it.
  co_await sleep_for(Millis(0));
  auto items = co_await run->read_block(block);
  if (closing_ || revision != revision_) co_return;
  const auto at = std::find_if(blocks_.begin(), blocks_.end(), [&](const Loaded& candidate) {
    return candidate.run == run && candidate.block == block;
  });
  const bool wanted = at != blocks_.end();  // not, if the run was merged meanwhile
  if (items) {
    if (!wanted) co_return;
    at->items = std::make_shared<const std::vector<DelayedItem>>(std::move(*items));
    wake_later();
    arm();
    co_return;
  }
  ++counters_.read_errors;
  if (wanted) blocks_.erase(at);
  if (std::find(runs_.begin(), runs_.end(), run) == runs_.end()) co_return;
  if (items.is(ErrorCode::Corruption) || items.is(ErrorCode::NotFound)) {
    GM_LOG_ERROR("{}: {}; the delayed index is made anew from the log", ledger_name_,
                 items.status().to_string());
    ++counters_.rebuilt;
    clear();
    co_return;
  }
  GM_LOG_WARN("{}: reading the delayed index failed, will be tried again: {}", ledger_name_,
              items.status().to_string());
  read_retry_ms_ = now_ms() + options_.retry_ms;
  arm();
}

// ---- what is due ----

DelayedIndex::Collected DelayedIndex::collect(const DelayedItem& after, std::size_t at_most,
                                              std::vector<DelayedItem>& out) {
  using Next = Collected::Next;
  // Sources in order, each standing at its first item behind `after`.
  struct Source {
    const DelayedBuffer* buffer = nullptr;
    DelayedBuffer::Place place;
    std::shared_ptr<DelayedRun> run;
    std::size_t block = 0;
    Block items;
    std::size_t item = 0;
    const DelayedItem* head = nullptr;
  };
  const DelayedItem end = DelayedItem::end_of(ripe_ms_);
  // Behind this a block is missing, whose items are not known.
  DelayedItem limit = end;
  bool missing = false;

  const auto settle = [&](Source& source) {
    while (source.block < source.run->blocks()) {
      const DelayedItem& first = source.run->first_of(source.block);
      if (first > end) break;
      source.items = loaded(source.run, source.block, true);
      if (source.items == nullptr) {
        missing = true;
        // Its items are not before `first`, nor before what was collected.
        const DelayedItem before_first = {first.due_ms,
                                          {first.position.ledger, first.position.entry - 1}};
        limit = std::min(limit, std::max(after, before_first));
        break;
      }
      source.item = static_cast<std::size_t>(
          std::upper_bound(source.items->begin(), source.items->end(), after) -
          source.items->begin());
      if (source.item < source.items->size()) {
        source.head = &(*source.items)[source.item];
        return;
      }
      ++source.block;
    }
    source.head = nullptr;
  };

  std::vector<Source> sources;
  sources.reserve(runs_.size() + 2);
  for (const DelayedBuffer* buffer : {&buffer_, &frozen_}) {
    Source source;
    source.buffer = buffer;
    source.place = buffer->after(after);
    source.head = buffer->at(source.place);
    if (source.head != nullptr) sources.push_back(std::move(source));
  }
  for (const auto& run : runs_) {
    Source source;
    source.run = run;
    source.block = std::max(run->block_after(after), run->live_from);
    settle(source);
    if (source.head != nullptr) sources.push_back(std::move(source));
  }

  DelayedItem through = after;
  std::size_t looked_at = 0;
  while (true) {
    Source* next = nullptr;
    for (Source& source : sources) {
      if (source.head != nullptr && (next == nullptr || *source.head < *next->head)) next = &source;
    }
    if (next == nullptr || *next->head > limit) break;
    if (out.size() >= at_most || looked_at >= kMostLookedAt) return {Next::More, through};
    ++looked_at;
    const DelayedItem item = *next->head;
    if (item != through && held_.contains(item.position)) out.push_back(item);
    through = item;
    if (next->buffer != nullptr) {
      next->buffer->step(next->place);
      next->head = next->buffer->at(next->place);
    } else if (++next->item < next->items->size()) {
      next->head = &(*next->items)[next->item];
    } else {
      ++next->block;
      // From here on `after` is behind all of this source's earlier items anyway.
      settle(*next);
    }
  }
  if (missing) return {Next::Wait, std::max(through, std::min(limit, end))};
  return {Next::Nothing, end};
}

std::optional<std::int64_t> DelayedIndex::next_due() const {
  const DelayedItem ripe = DelayedItem::end_of(ripe_ms_);
  std::optional<std::int64_t> next;
  const auto note = [&](std::int64_t due) { next = next ? std::min(*next, due) : due; };
  for (const DelayedBuffer* buffer : {&buffer_, &frozen_}) {
    if (const DelayedItem* item = buffer->at(buffer->after(ripe))) note(item->due_ms);
  }
  for (const auto& run : runs_) {
    const std::size_t block = run->block_after(ripe);
    if (block == run->blocks()) continue;
    if (run->first_of(block) > ripe) {
      note(run->first_of(block).due_ms);
      continue;
    }
    for (const Loaded& candidate : blocks_) {
      if (candidate.run != run || candidate.block != block || candidate.items == nullptr) continue;
      const auto item = std::upper_bound(candidate.items->begin(), candidate.items->end(), ripe);
      if (item != candidate.items->end()) note(item->due_ms);
    }
    // If it is not in memory, it is being read, and then this is asked again.
    if (block + 1 < run->blocks()) note(run->first_of(block + 1).due_ms);
  }
  return next;
}

void DelayedIndex::read_ahead() {
  const DelayedItem ripe = DelayedItem::end_of(ripe_ms_);
  const DelayedItem soon = DelayedItem::end_of(ripe_ms_ + options_.read_ahead_ms);
  for (const auto& run : runs_) {
    const std::size_t block = run->block_after(ripe);
    for (std::size_t i = block; i < run->blocks() && i <= block + 1; ++i) {
      if (run->first_of(i) <= soon) (void)loaded(run, i, true);
    }
  }
}

void DelayedIndex::arm() {
  if (closing_ || (held_.empty() && buffer_.empty() && runs_.empty())) return;
  const std::int64_t now = now_ms();
  std::int64_t at = std::max(now + 1, checked_ms_ + options_.check_ms);
  if (const auto due = next_due()) {
    // What is far off needs no checks before.
    if (*due > at + options_.read_ahead_ms && ripe_ms_ < *due) {
      const bool all_to_come = due_after(ripe_ms_) >= held_.size();
      if (all_to_come) at = *due - options_.read_ahead_ms;
    }
    at = std::min(at, *due);
  }
  for (const std::int64_t retry : {read_retry_ms_, write_retry_ms_}) {
    if (retry > now) at = std::min(at, retry);
  }
  if (armed_ms_ != 0 && armed_ms_ == at) return;
  armed_ms_ = at;
  if (!timer_) timer_.emplace(env_.shard->executor());
  timer_->expires_after(Millis(std::max<std::int64_t>(at - now, 0)));
  timer_->async_wait(
      [this, alive = std::weak_ptr<bool>(alive_)](const boost::system::error_code& cancelled) {
        if (cancelled || alive.expired()) return;
        armed_ms_ = 0;
        fire();
      });
}

void DelayedIndex::fire() {
  if (closing_) return;
  const std::int64_t now = now_ms();
  const auto due = next_due();
  if (due && *due <= now) wake_later();
  ripe_ms_ = std::max(ripe_ms_, now);
  if (read_retry_ms_ != 0 && read_retry_ms_ <= now) {
    read_retry_ms_ = 0;
    wake_later();
  }
  if (now - checked_ms_ >= options_.check_ms) {
    const bool more = sweep();
    checked_ms_ = more ? now + std::min(kSoonMs, options_.check_ms) - options_.check_ms : now;
  }
  tell_of_room();
  work();
  read_ahead();
  arm();
}

void DelayedIndex::tell_of_room() {
  if (!refused_ || full()) return;
  refused_ = false;
  wake_later();
}

void DelayedIndex::wake_later() {
  if (wake_posted_ || closing_) return;
  wake_posted_ = true;
  env_.shard->post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    wake_posted_ = false;
    if (!closing_) wake_();
  });
}

// What is due and done with leaves. True: there seems to be more of it.
bool DelayedIndex::sweep() {
  if (held_.empty()) {
    buffer_.clear();
    for (const auto& run : runs_) run->live_from = run->blocks();
    return false;
  }
  std::size_t gone = 0;
  buffer_.erase_due_if(ripe_ms_, kCheckedItems, [&](const DelayedItem& item) {
    if (still_needed(item.position)) return false;
    ++gone;
    return true;
  });
  bool more = gone >= kCheckedItems / 2;
  std::size_t looked_at = 0;
  for (std::size_t n = runs_.size(); n > 0 && looked_at < kCheckedBlocks; --n) {
    const auto& run = runs_[next_swept_++ % runs_.size()];
    if (run->live_from == run->blocks() || run->end_of(run->live_from).due_ms > ripe_ms_) continue;
    const Block items = loaded(run, run->live_from, true);
    if (items == nullptr) {
      more = true;  // when it was read
      continue;
    }
    ++looked_at;
    bool any = false;
    for (const DelayedItem& item : *items) any = still_needed(item.position) || any;
    if (any) continue;
    ++run->live_from;
    more = true;
  }
  return more;
}

// ---- numbers ----

std::int64_t DelayedIndex::due_after(std::int64_t time_ms) const {
  const DelayedItem from = DelayedItem::end_of(time_ms);
  std::int64_t count = buffer_.count_after(time_ms) + frozen_.count_after(time_ms);
  for (const auto& run : runs_) {
    const std::size_t block = run->block_after(from);
    if (block == run->blocks()) continue;
    count += run->items() - run->items_before(block);
    if (run->first_of(block) > from) continue;
    const std::int64_t in_block =
        std::min<std::int64_t>(run->items() - run->items_before(block), DelayedRun::kItemsPerBlock);
    std::int64_t before = in_block / 2;
    for (const Loaded& candidate : blocks_) {
      if (candidate.run != run || candidate.block != block || candidate.items == nullptr) continue;
      before = std::upper_bound(candidate.items->begin(), candidate.items->end(), from) -
               candidate.items->begin();
    }
    count -= before;
  }
  return std::min(count, held_.size());
}

std::size_t DelayedIndex::memory_bytes() const {
  std::size_t bytes = sizeof *this + held_.memory_bytes() + buffer_.memory_bytes() +
                      frozen_.memory_bytes() + blocks_.capacity() * sizeof(Loaded);
  for (const auto& run : runs_) bytes += run->memory_bytes();
  for (const Loaded& block : blocks_) {
    if (block.items != nullptr) bytes += block.items->capacity() * sizeof(DelayedItem);
  }
  return bytes;
}

std::int64_t DelayedIndex::run_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& run : runs_) bytes += run->bytes();
  return bytes;
}

std::int64_t DelayedIndex::items_in_memory() const {
  std::size_t items = buffer_.size() + frozen_.size();
  for (const Loaded& block : blocks_) items += block.items == nullptr ? 0 : block.items->size();
  return static_cast<std::int64_t>(items);
}

}  // namespace geminga
